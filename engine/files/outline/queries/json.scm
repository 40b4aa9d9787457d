(pair key: (string) @name) @key
(document
  (object (pair key: (string (string_content) @_key) value: (string) @about))
  (#eq? @_key "description"))
