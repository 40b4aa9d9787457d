(class_declaration "interface" name: (_) @name (class_body)? @body) @interface
(class_declaration "class" name: (_) @name (class_body)? @body) @class
(class_declaration "class" name: (_) @name (enum_class_body) @body) @enum
(object_declaration name: (_) @name (class_body)? @body) @class
(companion_object (class_body) @body) @class.companion
(function_declaration name: (_) @name (function_body)? @body) @function
(property_declaration (variable_declaration . (identifier) @name)) @property
(type_alias (identifier) @name) @type
(package_header (_) @package)
(import (qualified_identifier) @import)
