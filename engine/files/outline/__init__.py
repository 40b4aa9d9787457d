"""Outlines: the declarations of a text with their lines, as plain data.

Pure functions that make and search them.

There are two tiers: the grammars of tree-sitter with a query file for each language, and indentation; an outline names
its tier. Grammars are C code that some texts crash or block, so they run only in a
process of their own (`runtime.worker.forking.outlining`). Nothing here starts it, or reads a user's file.
"""
