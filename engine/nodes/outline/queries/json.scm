(document (object (pair key: (string) @name) @key))
(document (object (pair value: (object (pair key: (string) @name) @key))))
(document (array (object (pair key: (string) @name) @key)))
