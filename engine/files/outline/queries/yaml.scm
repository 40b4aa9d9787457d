(block_mapping_pair key: (_) @name) @key
(flow_pair key: (_) @name) @key
