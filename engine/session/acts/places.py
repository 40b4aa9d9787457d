"""Where files really are, links resolved. Blocks, so it is called on a thread. Used by `buffers`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 4096
"""Bytes of a path that Linux takes; a longer one leads nowhere."""
_UNFOLLOWED: Final = ("", ".", "..")


def real_places(paths: Iterable[str]) -> dict[str, str]:
    """Where each path leads, be there a file or not; one that cannot be followed leads to itself. Raises nothing."""
    directories: dict[str, str] = {}
    return {path: _real(path, directories) for path in paths}


def _real(path: str, directories: dict[str, str]) -> str:
    """As `os.path.realpath`, which asks for each part of each path; `directories` has those that are known."""
    try:
        if len(os.fsencode(path)) > _LONGEST:
            return path
        above, last = os.path.split(path)
        if last in _UNFOLLOWED:
            return os.path.realpath(path)
        if (real := directories.get(above)) is None:
            real = directories[above] = os.path.realpath(above)
        place = os.path.join(real, last)
        return os.path.realpath(place) if os.path.islink(place) else place
    except (OSError, ValueError):
        return path
