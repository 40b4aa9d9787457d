"""Searches in files: globs, ignore files, the command lines of ripgrep and of our own walk, and path completion.

Pure but for looks at places and ignore files. Nothing here starts a program; the tools `grep` and `find` do.
"""
