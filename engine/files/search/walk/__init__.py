"""Our own search, for where there is no ripgrep: a program of its own, because a regular expression that never ends can
only be ended with its process.

It prints what ripgrep prints (`files.search.output`), in the order of names. Its modules import the standard library,
each other, `pathspec` and `regex` and nothing else of the engine; no process but this one imports them. Started by
`program.py`, whose command line is made by `files.search.commands`.
"""
