(class_declaration) @class
(record_declaration) @class
(interface_declaration) @interface
(annotation_type_declaration) @interface
(enum_declaration) @enum
(method_declaration) @method
(annotation_type_element_declaration) @method
(constructor_declaration) @method
(compact_constructor_declaration) @method
(field_declaration declarator: (variable_declarator name: (_) @name)) @property
(constant_declaration declarator: (variable_declarator name: (_) @name)) @constant
(package_declaration (_) @package)
(import_declaration [(scoped_identifier) (identifier)] @import)
