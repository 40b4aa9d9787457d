"""What changes names, permissions and times in the file tree: a file for each row of `toolbox.ROUTED`, of its name.

As in `tools`, a file has `Arguments` and `perform`, which returns a `TreeAct` that it has not done.
"""
