(namespace_definition body: (_)) @module
(namespace_definition name: (_) @package !body)
(class_declaration) @class
(interface_declaration) @interface
(trait_declaration) @trait
(enum_declaration) @enum
(function_definition) @function
(method_declaration) @method
(property_declaration (property_element name: (_) @name)) @property
(const_declaration (const_element . (name) @name)) @constant
(namespace_use_clause . (_) @import)
(require_once_expression (string (string_content) @import))
(require_expression (string (string_content) @import))
(include_expression (string (string_content) @import))
(include_once_expression (string (string_content) @import))
