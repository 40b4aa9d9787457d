(module . (comment)* . (expression_statement . (string (string_content) @about)))
(class_definition) @class
(function_definition) @function
(class_definition body: (block . (comment)* . (expression_statement . (string (string_content) @doc)))) @documented
(function_definition body: (block . (comment)* . (expression_statement . (string (string_content) @doc)))) @documented
(module (expression_statement (assignment left: (identifier) @name) @constant))
(class_definition body: (block (expression_statement (assignment left: (identifier) @name type: (_)) @property)))
(type_alias_statement left: (type) @name) @type
(import_statement name: [(dotted_name) @import (aliased_import name: (dotted_name) @import)])
(import_from_statement module_name: (_) @import)
