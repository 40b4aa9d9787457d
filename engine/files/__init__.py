"""Views on files: nodes, groups, outlines, ticks, search, safe opening.

Nodes render documents within token budgets.

Files are read through Protocols (`sources`), and time comes from a callable. The worker makes one `Board` for each
session and injects its names. Models call the methods of nodes, whose CamelCase names are a specified language.
"""
