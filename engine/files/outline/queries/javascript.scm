(class_declaration) @class
(function_declaration) @function
(generator_function_declaration) @function
(method_definition) @method
(field_definition property: (_) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(pair key: (property_identifier) @name value: (function_expression body: (_) @body)) @method
(program (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function)
(program (lexical_declaration (variable_declarator name: (identifier) @name value: (class body: (_) @body))) @class)
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @constant)
(program (export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function))
(program (export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name)) @constant))
(program (variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @constant)
(program (expression_statement (assignment_expression left: (member_expression) @name right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function)
(program (expression_statement (assignment_expression left: (member_expression) @name right: (class body: (_) @body))) @class)
(export_statement "default" value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @function.default
(export_statement "default" value: (class body: (_) @body)) @class.default
(import_statement source: (string (string_fragment) @import))
(export_statement source: (string (string_fragment) @import))
(call_expression function: (identifier) @_require arguments: (arguments . (string (string_fragment) @import) .) (#eq? @_require "require"))
