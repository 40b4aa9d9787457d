(trait_definition) @trait
(enum_definition) @enum
(class_definition) @class
(object_definition) @class
(package_object) @module
(function_definition) @function
(function_declaration) @function
(template_body (val_definition pattern: (identifier) @name) @property)
(template_body (var_definition pattern: (identifier) @name) @property)
(template_body (val_declaration name: (_) @name) @property)
(compilation_unit (val_definition pattern: (identifier) @name) @constant)
(given_definition) @constant
(type_definition) @type
(package_clause name: (_) @package)
(import_declaration) @import.text
