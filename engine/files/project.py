"""Which directories above a session's directory belong to its project, and nobody else can fill."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

_REPOSITORY: Final = ".git"


def own_directories(directory: str) -> Iterator[str]:
    """Yield an absolute directory and those above it, up to the first one in which somebody else may make files.

    Anybody may in a directory such as /tmp, and its owner in that of another account. Root and the directory's owner
    count as this account, because the user chose the directory.
    """
    yield directory
    for above in map(str, PurePath(directory).parents):
        try:
            state = os.stat(above)
        except OSError:
            return
        if state.st_uid not in _owners(directory) or state.st_mode & stat.S_IWOTH:
            return
        yield above


def is_own(path: str, directory: str) -> bool:
    """Return whether a path is there, and belongs to this account, to root or to the directory's owner."""
    try:
        return os.lstat(path).st_uid in _owners(directory)
    except OSError:
        return False


def project_root(directory: str) -> str:
    """Return the root of the repository around an absolute directory, or the directory if there is none."""
    found = (each for each in own_directories(directory) if is_own(os.path.join(each, _REPOSITORY), directory))
    return next(found, directory)


def _owners(directory: str) -> tuple[int, ...]:
    try:
        return 0, os.geteuid(), os.stat(directory).st_uid
    except OSError:
        return 0, os.geteuid()
