(module) @module
(class) @class
(method name: (_) @name parameters: (_) @parameters) @method
(method) @method
(singleton_method name: (_) @name parameters: (_) @parameters) @method
(singleton_method) @method
(alias) @method
(assignment left: (constant) @name) @constant
(call method: (identifier) @_require arguments: (argument_list . (string (string_content) @import)) (#any-of? @_require "require" "require_relative"))
