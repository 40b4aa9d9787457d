"""Which acts are on files of the session's scratch directory alone, where nothing is anybody's: no guard stops them.

Owns where the audit events of acts on files name their paths. Must not know what a guard is for. Used by `guard`.
"""

from __future__ import annotations

import os
from typing import Any, Final

_NONE: Final = -1
_PATHS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "open": ((0, _NONE),),
    "os.truncate": ((0, _NONE),),
    "os.mkfifo": ((0, _NONE),),
    "os.mknod": ((0, _NONE),),
    "sqlite3.connect": ((0, _NONE),),
    "sqlite3 ATTACH": ((0, _NONE),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.symlink": ((1, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
}
"""By event: the positions of a path and of the descriptor of the directory that it begins at, where it has one."""


def is_in(scratch: str, name: str, args: tuple[Any, ...]) -> bool:
    """Whether the event is about nothing but what is below the directory, links above the last name resolved."""
    places = _PATHS.get(name)
    if places is None:
        return False
    try:
        return all(_is_below(scratch, args[path], _NONE if at == _NONE else args[at]) for path, at in places)
    except (OSError, ValueError, TypeError, IndexError):
        return False


def _is_below(scratch: str, path: Any, directory: int) -> bool:
    if isinstance(path, int):
        place = os.readlink(f"/proc/self/fd/{path}")
    else:
        place = os.fsdecode(path)
        if not place.startswith("/"):
            folder = os.getcwd() if directory == _NONE else os.readlink(f"/proc/self/fd/{directory}")
            place = os.path.join(folder, place)
    folder = os.path.realpath(os.path.dirname(place))
    # A link of the last name leads out of it, perhaps.
    return f"{folder}/".startswith(scratch) and f"{os.path.realpath(place)}/".startswith(scratch)
