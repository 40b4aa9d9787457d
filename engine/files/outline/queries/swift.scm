(class_declaration declaration_kind: ["class" "actor"]) @class
(class_declaration declaration_kind: "struct") @struct
(class_declaration declaration_kind: "enum") @enum
(class_declaration declaration_kind: "extension") @extension
(protocol_declaration) @interface
(function_declaration) @function
(init_declaration "init" @name body: (_) @body) @method
(deinit_declaration "deinit" @name body: (_) @body) @method
(subscript_declaration "subscript" @name) @method
(protocol_function_declaration) @method
(protocol_property_declaration name: (pattern) @name) @property
(source_file (property_declaration name: (pattern bound_identifier: (_) @name)) @property)
(class_body (property_declaration name: (pattern bound_identifier: (_) @name) computed_value: (_) @body) @property)
(class_body (property_declaration name: (pattern bound_identifier: (_) @name)) @property)
(enum_class_body (property_declaration name: (pattern bound_identifier: (_) @name) computed_value: (_) @body) @property)
(typealias_declaration) @type
(import_declaration (identifier) @import)
