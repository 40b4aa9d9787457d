"""Which directory a path is in. Pure string work on absolute paths; must not ask the file system."""

from __future__ import annotations


def is_inside(path: str, directories: tuple[str, ...]) -> bool:
    """Whether `path` is one of the directories or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in directories)
