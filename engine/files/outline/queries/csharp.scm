(namespace_declaration) @module
(class_declaration) @class
(record_declaration) @class
(struct_declaration) @struct
(interface_declaration) @interface
(enum_declaration) @enum
(delegate_declaration) @type
(method_declaration) @method
(constructor_declaration) @method
(property_declaration name: (_) @name accessors: (_) @body) @property
(property_declaration name: (_) @name value: (_) @body) @property
(indexer_declaration "this" @name accessors: (_) @body) @property
(event_field_declaration (variable_declaration (variable_declarator name: (_) @name))) @property
(field_declaration (variable_declaration (variable_declarator name: (_) @name))) @property
(operator_declaration operator: (_) @name body: (_) @body) @method
(local_function_statement) @function
(file_scoped_namespace_declaration name: (_) @package)
(using_directive [(qualified_name) (identifier)] @import)
