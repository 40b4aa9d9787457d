"""Kept values: names of the namespace as bytes, for what a statement that runs again may not bring back.

`keeper` is what the interpreter calls. `pickler` writes a group of names that share objects, `loader` reads one, and
both agree on `constructors`. `copies` writes in a forked process what is large or calls the user's code. Nothing here
knows the log, the store or which values a rebuild needs; the host never reads a pickle.
"""
