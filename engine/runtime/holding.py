"""Whether this kernel can hold statements to a domain, before any worker says what does.

Used by `rewindow-mcp`, which serves no statements where it cannot. Imports the standard library alone.
"""

from __future__ import annotations

from .sandbox import landlock, seccomp


def cannot_hold() -> str:
    """Why the kernel cannot hold statements here, in a phrase; empty where it can."""
    return " and ".join(filter(None, (landlock.missing(), seccomp.missing())))
