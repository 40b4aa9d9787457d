"""Which directory a path is in. Works on absolute paths; `search_path` alone asks the file system."""

from __future__ import annotations

import os


def is_inside(path: str, directories: tuple[str, ...]) -> bool:
    """Whether `path` is one of the directories or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in directories)


def search_path(path: str, distrusted: tuple[str, ...]) -> str:
    """A `PATH` without relative places and those in which a statement may have left a program.

    Args:
        path: places, separated by colons.
        distrusted: absolute directories, links resolved.
    """
    places = (each for each in path.split(os.pathsep) if os.path.isabs(each))
    return os.pathsep.join(each for each in places if not is_inside(os.path.realpath(each), distrusted))
