"""Views on files: nodes that render documents within token budgets, groups, outlines, ticks, search, safe opening.

Content comes through a Protocol (`sources_protocol`), time through a callable. The worker makes one `Board` for each
session and injects its names. Models call the methods of nodes, whose CamelCase names are a specified language.
"""
