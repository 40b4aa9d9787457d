(rule_set (selectors) @name (block) @body) @rule
(media_statement (block) @body) @rule.text
(supports_statement (block) @body) @rule.text
(at_rule (block) @body) @rule.text
(keyframes_statement (keyframes_name) @name (_) @body) @rule
(import_statement [(string_value) (call_expression)] @import)
