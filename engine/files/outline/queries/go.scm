(function_declaration) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: [(type_identifier) @owner (pointer_type (type_identifier) @owner) (generic_type type: (_) @owner) (pointer_type (generic_type type: (_) @owner))])) name: (_) @name body: (_) @body) @method
(type_declaration (type_spec name: (_) @name type: (struct_type (field_declaration_list) @body)) @struct)
(type_declaration (type_spec name: (_) @name type: (interface_type) @body) @interface)
(type_declaration (type_spec name: (_) @name) @type)
(type_declaration (type_alias name: (_) @name) @type)
(method_elem) @method
(source_file (const_declaration (const_spec name: (_) @name) @constant))
(source_file (var_declaration (var_spec name: (_) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (_) @name) @variable)))
(import_spec path: (_) @import)
