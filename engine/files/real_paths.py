"""Where paths really lead: the links on the way of one, and a `PATH` without directories that statements can write.

Asks the file system, and opens nothing. Used by `protected`, and wherever a program is looked for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Final

from ..core.paths import is_inside

_MOST_LINKS: Final = 40
"""As many as the kernel follows."""


def search_path(path: str, distrusted: tuple[str, ...]) -> str:
    """A `PATH` without relative places and those in which a statement may have left a program.

    Args:
        path: places, separated by colons.
        distrusted: absolute directories, links resolved.
    """
    places = (each for each in path.split(os.pathsep) if os.path.isabs(each))
    return os.pathsep.join(each for each in places if not is_inside(os.path.realpath(each), distrusted))


def links_to(path: str) -> Iterator[str]:
    """The real place of each link on an absolute path, one at its end included: replacing it leads elsewhere."""
    waiting = deque(path.split("/"))
    here, count = "/", 0
    while waiting and count < _MOST_LINKS:
        part = waiting.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        try:
            target = os.readlink(there)
        except OSError:
            here = there
            continue
        count += 1
        yield there
        here = "/" if target.startswith("/") else here
        waiting.extendleft(reversed(target.split("/")))
