"""The paths of a workspace that begin in a certain way, for whoever is typing one.

Names are listed of directories that `confinement` has pinned, so nothing is told of what lies outside, nor whether a
link there leads to anything. What ignore files leave out and what other programs keep their records in is not listed,
and a hidden name is when its dot has been typed. Must not know who asks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from stat import S_ISDIR, S_ISREG
from typing import Final

from ..confinement import opened_directory, pinned_stat
from .ignore_files import IgnoreFiles
from .place import VERSION_CONTROL, place_of

_MOST_READ: Final = 20_000
"""Names of a directory that are looked at."""


def complete_path(start: str, roots: tuple[str, ...], *, directories: bool = False) -> list[str]:
    """Every path that begins with `start`, as it would be typed on, sorted; directories end in a slash.

    Args:
        start: relative to the first root, or absolute, or from `~`; its last part need not be whole.
        roots: absolute directories. What is outside, cannot be read, or is neither file nor directory is left out.
        directories: leaves files out too.
    """
    above, slash, name = start.rpartition("/")
    folder = os.path.join(roots[0], os.path.expanduser(above + slash))
    others = [f"{root.rstrip('/')}/" for root in roots if start.startswith("/") or root != roots[0]]
    found = [root for root in others if root.startswith(start)] if start[:1] in ("", "/") else []
    try:
        names = list(_names(folder, name, roots))
    except (OSError, ValueError):
        names = []
    return found + [above + slash + each for each in sorted(names) if each.endswith("/") or not directories]


def _names(folder: str, start: str, roots: tuple[str, ...]) -> Iterator[str]:
    rules = _rules_of(folder, roots)
    with opened_directory(folder, roots) as descriptor:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        with os.scandir(descriptor) as listed:
            for entry in itertools.islice(listed, _MOST_READ):
                name = entry.name
                if not name.startswith(start) or not _is_offered(name, start):
                    continue
                mark = _mark(entry, os.path.join(place, name), roots)
                if mark is not None and not rules.leave_out(f"{name}{mark}", f"{name}{mark}"):
                    yield f"{name}{mark}"


def _is_offered(name: str, start: str) -> bool:
    """Not what is hidden unless it was asked for, nor what cannot be typed, such as a name that is no Unicode."""
    return name not in VERSION_CONTROL and name.isprintable() and (start.startswith(".") or not name.startswith("."))


def _mark(entry: os.DirEntry[str], path: str, roots: tuple[str, ...]) -> str | None:
    """What a path of the entry ends in; None for what cannot be opened."""
    try:
        mode = pinned_stat(path, roots).st_mode if entry.is_symlink() else entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return None
    if S_ISDIR(mode):
        return "/"
    return "" if S_ISREG(mode) else None


def _rules_of(folder: str, roots: tuple[str, ...]) -> IgnoreFiles:
    """What counts in a directory, from where ignore files begin to count."""
    place = place_of(folder, roots)
    rules = IgnoreFiles(in_repository=place.in_repository)
    for each in place.above:
        rules = rules.within(each, below=f"{os.path.relpath(place.directory, each)}/")
    return rules.within(place.directory)
