"""Kept values: pickles of names, for values that a statement may not produce when it runs again.

The interpreter uses `keeper`, which also loads them. `pickler` writes a group of names that share objects, in the
worker or in a forked process (`writing`), and `constructors` are the functions that a pickle names. The host never
reads a pickle. Nothing here knows the log, the store, or which values a rebuild needs.
"""
