"""Completion of paths in a workspace, for a person who types one.

Directories are opened inside the roots only, so nothing outside is revealed, not even whether a link there leads to
anything. Files that ignore files exclude and the folders of version control are not listed. A hidden name is listed
once its dot has been typed. Must not know who asks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from stat import S_ISDIR, S_ISREG
from typing import Final

from ..safe_open import opened_directory, pinned_stat
from .ignore_files import VERSION_CONTROL, place_of, rules_above

_MOST_READ: Final = 20_000
"""Number of names in a directory that are read."""


def complete_path(start: str, roots: tuple[str, ...], *, directories: bool = False) -> list[str]:
    """Return the paths that begin with `start`, sorted.

    Directories end in a slash.

    Args:
        start: relative to the first root, absolute, or from `~`; the last part may be incomplete.
        roots: absolute directories. Paths outside, unreadable ones, and those of pipes and devices are omitted.
        directories: omits files.
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
    beginning = place_of(folder, roots)
    rules = rules_above(beginning).within(beginning.directory)
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
    """Return whether to offer a name: hidden ones on request only, unprintable ones never."""
    return name not in VERSION_CONTROL and name.isprintable() and (start.startswith(".") or not name.startswith("."))


def _mark(entry: os.DirEntry[str], path: str, roots: tuple[str, ...]) -> str | None:
    """Return what follows the path of an entry, "/" for a directory.

    Returns None to omit it.
    """
    try:
        mode = pinned_stat(path, roots).st_mode if entry.is_symlink() else entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return None
    if S_ISDIR(mode):
        return "/"
    return "" if S_ISREG(mode) else None
