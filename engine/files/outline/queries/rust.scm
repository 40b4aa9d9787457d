(struct_item) @struct
(union_item) @struct
(enum_item) @enum
(trait_item) @trait
(impl_item !trait type: (_) @name body: (_) @body) @extension
(impl_item trait: (_) type: (_) @name body: (_) @body) @extension
(function_item) @function
(function_signature_item) @function
(mod_item) @module
(type_item) @type
(associated_type) @type
(const_item) @constant
(static_item) @constant
(macro_definition) @macro
(use_declaration argument: (_) @import)
(extern_crate_declaration name: (_) @import)
