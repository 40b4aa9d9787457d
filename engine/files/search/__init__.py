"""Searches in files: globs, ignore files, ripgrep's command lines, and path completion.

Pure but for looks at places and ignore files. Nothing here starts a program; the tools `grep` and `find` do.
"""
