(element . (start_tag (tag_name) @level) @_head (text)? @name (#match? @level "^[hH][1-6]$")) @heading
(element . (start_tag (tag_name) @_tag) . (text) @about (#match? @_tag "^(title|TITLE)$"))
(element (start_tag (attribute (attribute_name) @_id (quoted_attribute_value (attribute_value) @name))) @head (#eq? @_id "id")) @element
(script_element (start_tag (attribute (attribute_name) @_src (quoted_attribute_value (attribute_value) @import))) (#eq? @_src "src"))
(element (start_tag (tag_name) @_link (attribute (attribute_name) @_href (quoted_attribute_value (attribute_value) @import))) (#eq? @_link "link") (#eq? @_href "href"))
