"""Which directories to watch for protected names that do not exist yet, and which new names must not stay.

The kernel cannot mount over a name that does not exist. So a program of a sandboxed statement can make one, and another
program may run it at once: an editor calls `git status` again and again. Such names are those of the table at the top
of a session's directory or of a work tree, and those that lead git to other configuration or hooks.

Some protected names may stay: settings that editors and agents make, the state of a rebase, which only `git rebase
--continue` reads, and a new repository (`git init`), unless it was prepared elsewhere. These are only reported. Pure,
except for `found`, which asks the disk. Used by `session.name_guard`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final

from ..core.domain import is_inside
from .git_configuration import COMMON_DIR, CONFIGURATIONS
from .protected_names import ABOVE_ROWS, BY_NAME, GIT, GIT_TOP_RUNS, TWO_PARTS, fold, stem_of
from .safe_open import real_path

TOP: Final = "top"
"""The kind of a directory in which all names of the table count."""
REPOSITORY: Final = "repository"
NEW_REPOSITORY: Final = "new repository"
"""The kind of a repository that a program is making in place, and which has configuration and hooks soon."""
WAY: Final = "way"
"""The kind of a directory between others: moving it moves them."""
_IN_NEW_REPOSITORY: Final = frozenset((COMMON_DIR, *CONFIGURATIONS)) - {"config"}
_IN_REPOSITORY: Final = frozenset((*CONFIGURATIONS, "hooks", COMMON_DIR, *GIT_TOP_RUNS))


_OF_TOOLS: Final = frozenset((
    ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".mcp.json", ".claude", ".claude.json",
    ".cursor", ".gemini", ".codex",
))  # fmt: skip
"""What the user's editors and agents make by themselves at any time. They ask before they trust what is in it."""


def found(roots: Iterable[str], repositories: Iterable[str], most: int) -> Mapping[str, str]:
    """Return the directories to watch, with their kinds, at most so many.

    Args:
        roots: the session's directories, absolute, links resolved.
        repositories: those in them.
        most: the number of directories. Those near the top come first.
    """
    roots = tuple(roots)
    kinds = dict.fromkeys(roots, TOP)
    for repository in sorted(repositories, key=lambda path: path.count("/")):
        place = real_path(repository)
        if not is_inside(place, roots) or not os.path.isdir(place):
            continue
        kinds[place] = REPOSITORY
        if fold(os.path.basename(repository)) == GIT:
            kinds.setdefault(os.path.dirname(repository), TOP)
        _add_ways(kinds, (place, repository), roots)
    for top in [path for path, kind in kinds.items() if kind == TOP]:
        for name in ABOVE_ROWS:
            place = real_path(os.path.join(top, name))  # the user may have made a link
            if os.path.isdir(place) and is_inside(place, roots):
                kinds.setdefault(place, name)
                _add_ways(kinds, (place,), roots)
    return dict(sorted(kinds.items(), key=lambda item: item[0].count("/"))[:most])


def _add_ways(kinds: dict[str, str], places: Iterable[str], roots: tuple[str, ...]) -> None:
    for above in {str(above) for place in places for above in PurePath(place).parents}:
        if is_inside(above, roots):
            kinds.setdefault(above, WAY)


def kind_below(kind: str, name: str) -> str | None:
    """Return the kind of a new directory in one of that kind; None if it need not be watched."""
    if kind != TOP:
        return None
    return NEW_REPOSITORY if fold(name) == GIT else fold(name) if fold(name) in ABOVE_ROWS else None


def is_repository(kind: str, name: str) -> bool:
    """Return whether git looks for a repository at a name in a directory of that kind.

    A program that needs a new one makes a directory there. It moves none there, and makes no link or file.
    """
    return kind == TOP and fold(name) == GIT


def must_be_no_link(kind: str, name: str) -> bool:
    """Return whether a new link of that name must not stay: rows of the table have names in it.

    Where the link leads is not asked, because that can change without news.
    """
    return kind == TOP and fold(name) in ABOVE_ROWS


def must_go(kind: str, name: str) -> bool:
    """Return whether a new name in a directory of that kind must not stay, whatever it is."""
    folded = fold(name)
    if kind == TOP:
        return folded not in _OF_TOOLS and (folded in BY_NAME or stem_of(folded) in BY_NAME)
    if kind == REPOSITORY:
        return folded in _IN_REPOSITORY
    if kind == NEW_REPOSITORY:
        return folded in _IN_NEW_REPOSITORY
    return (kind, folded) in TWO_PARTS
