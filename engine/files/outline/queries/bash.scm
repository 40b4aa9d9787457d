(function_definition) @function
(program (variable_assignment name: (variable_name) @name) @variable)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @variable)
(command name: (command_name) @_alias argument: (_) @name (#eq? @_alias "alias")) @type
(command name: (command_name) @_source . argument: (_) @import (#any-of? @_source "source" "."))
