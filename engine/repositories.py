"""Where git keeps what it runs: the places of repositories that name programs or are programs.

Whoever may write there has a plain `git status` of somebody else run a program of theirs. Asks the file system, links
not followed, as far as that takes milliseconds; must not know what is done about the places. Used by
`sessions.confining`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

_GIT: Final = ".git"
_RUN: Final = ("config", "config.worktree", "hooks")
_HEAD: Final = "HEAD"
"""What every repository has."""
_MOST: Final = 50
"""Repositories that are named: each costs whoever keeps its places some time."""
_LOOKED_AT: Final = 1_000
"""Directories, the ones near the top first: whatever is there, the looking ends."""


def places_that_run(root: str) -> tuple[str, ...]:
    """Those of the repository that the absolute directory is the work tree of, and of those that are found in it.

    Its own are named whether they are there or not; of others, also of submodules, those that there are now. Where
    `.git` is a file, which says where the repository is, that is the place, as in a further work tree.
    """
    own = os.path.join(root, _GIT)
    others = (git for git in _repositories(root) if git != own)
    return tuple(place for git in (own, *islice(others, _MOST)) for place in _places(git))


def _places(git: str) -> tuple[str, ...]:
    return (git,) if os.path.isfile(git) else tuple(os.path.join(git, name) for name in _RUN)


def _repositories(root: str) -> Iterator[str]:
    """The `.git` of each work tree, and what is there of submodules."""
    for folder in _folders(root, leaves=(_GIT,)):
        git = os.path.join(folder, _GIT)
        if os.path.lexists(git):
            yield git
            yield from _submodules(os.path.join(git, "modules"))


def _submodules(modules: str) -> Iterator[str]:
    """The repositories below a directory of them; their names may have slashes, and they may have submodules."""
    for folder in _folders(modules, leaves=("objects", "refs", "logs")):
        if os.path.isfile(os.path.join(folder, _HEAD)):
            yield folder


def _folders(top: str, leaves: tuple[str, ...]) -> Iterator[str]:
    """The directory and those below it, level by level, but for those of such a name and what is in them."""
    waiting = deque([top])
    for _ in range(_LOOKED_AT):
        if not waiting:
            return
        folder = waiting.popleft()
        yield folder
        with suppress(OSError), os.scandir(folder) as entries:
            waiting += sorted(
                entry.path for entry in entries if entry.name not in leaves and entry.is_dir(follow_symlinks=False)
            )
