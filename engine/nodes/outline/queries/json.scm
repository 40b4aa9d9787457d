(pair key: (string) @name) @key
(document
  (object (pair key: (string (string_content) @_key) value: (string (string_content) @about)))
  (#eq? @_key "description"))
