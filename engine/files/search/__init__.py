"""What `grep` and `find` have in common: where a search looks, the program that searches, and what it printed.

Two programs print the same: ripgrep where there is one, else our own walk (`walk`). Both are started below the zygote
by whoever performs tools; nothing here starts a process. Must not know tools or sessions. Used by `session.tools.grep`
and `session.tools.find`, and by whoever makes a `Workspace` (`ripgrep.find_ripgrep`).
"""
