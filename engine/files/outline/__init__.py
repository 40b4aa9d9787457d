"""Outlines: what a text declares and where, as plain data, and the pure functions that make one and look things up.

Three tiers make outlines: the grammars of tree-sitter with one query file per language, then `ctags` where that is
installed, then indentation; an outline says which made it. Grammars are C code that some texts crash or keep busy, so
they run in a process of their own alone (`worker.outlining`). Nothing here starts it, or reads a file of a user's.
"""
