(function_declaration name: (_) @name parameters: (_) @parameters) @function
(chunk (assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition parameters: (_) @parameters))) @function)
(chunk (variable_declaration (assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition parameters: (_) @parameters)))) @function)
(chunk (variable_declaration (assignment_statement (variable_list . name: (_) @name))) @variable)
(field name: (identifier) @name value: (function_definition parameters: (_) @parameters)) @function
(function_call name: (identifier) @_require arguments: (arguments . (string content: (_) @import)) (#eq? @_require "require"))
