"""Our own search, for systems without ripgrep: a program of its own.

Only killing a process ends an endless regular expression.

It prints what ripgrep prints (`files.search.commands`), sorted by name. Its modules import the standard library, each
other, `pathspec` and `regex`, and nothing else of the engine; no other process imports them. Started by `program.py`
with the command line of `files.search.commands`.
"""
