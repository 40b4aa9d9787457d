(class_declaration) @class
(abstract_class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(type_alias_declaration) @type
(internal_module) @module
(module) @module
(function_declaration) @function
(generator_function_declaration) @function
(function_signature) @function
(method_definition) @method
(interface_body (method_signature) @method)
(abstract_method_signature) @method
(interface_body (property_signature) @property)
(public_field_definition name: (_) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(public_field_definition) @property
(program (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function)
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @constant)
(export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function)
(export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(ambient_declaration (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(ambient_declaration (variable_declaration (variable_declarator name: (identifier) @name)) @constant)
(export_statement "default" value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function.default
(import_statement source: (string (string_fragment) @import))
(export_statement source: (string (string_fragment) @import))
(import_require_clause source: (string (string_fragment) @import))
(call_expression function: (identifier) @_require arguments: (arguments . (string (string_fragment) @import) .) (#eq? @_require "require"))
