(namespace_definition name: (_) @name body: (_) @body) @module
(class_specifier name: (_) @name body: (_) @body) @class
(struct_specifier name: (_) @name body: (_) @body) @struct
(union_specifier name: (_) @name body: (_) @body) @struct
(enum_specifier name: (_) @name body: (_) @body) @enum
(concept_definition name: (_) @name) @type
(alias_declaration name: (_) @name) @type
(type_definition declarator: (type_identifier) @name) @type
(function_definition declarator: (function_declarator declarator: (_) @name) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)) body: (_) @body) @function
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name)) body: (_) @body) @function
(function_definition declarator: (operator_cast) @name body: (_) @body) @function
(function_definition declarator: (function_declarator declarator: (_) @name) (default_method_clause)) @function
(function_definition declarator: (function_declarator declarator: (_) @name) (delete_method_clause)) @function
(declaration declarator: (function_declarator declarator: (_) @name)) @function
(declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) @function
(declaration declarator: (reference_declarator (function_declarator declarator: (_) @name))) @function
(field_declaration declarator: (function_declarator declarator: (_) @name)) @method
(field_declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) @method
(field_declaration declarator: (reference_declarator (function_declarator declarator: (_) @name))) @method
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(preproc_function_def name: (_) @name) @macro
(preproc_def name: (_) @name value: (_)) @macro
(preproc_include path: (_) @import)
