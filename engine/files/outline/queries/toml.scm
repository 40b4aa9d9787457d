(document (pair . (_) @name) @key)
(table . (_) @name) @key
(table_array_element . (_) @name) @key
(table . (_) (pair . (_) @name) @key)
(table_array_element . (_) (pair . (_) @name) @key)
(table (pair (bare_key) @_key (string) @about) (#eq? @_key "description"))
