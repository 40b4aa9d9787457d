"""Where a search looks: a directory or a file of the workspace, and where the ignore files above it begin to count.

Ignore files count from the top: the root of the repository that the place lies in, else the workspace's own root. What
lies above says nothing about this project. Must not know which program searches. Used by `session.tools.grep` and
`session.tools.find`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..confinement import opened_directory, opened_file, own_below, real_roots

REPOSITORY: Final = ".git"
VERSION_CONTROL: Final = (".git", ".hg", ".jj", ".svn")
"""Directories that belong to other programs; everything else that is hidden is searched."""
IGNORE_FILES: Final = (".rgignore", ".ignore", ".gitignore")
"""The files of rules in a directory. One rule that an earlier one of them has, at any level, wins over all later."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is searched: all of `directory`, or its file `name`. Paths are where the kernel found them, links resolved.

    `above` holds the directories from the top to the directory's parent, outermost first. `in_repository`: the top is
    that of a repository. `strangers`: a directory above the top has ignore files that a program which does not know of
    the top would respect. `kept_out`: what is below `directory` and not searched, because it is this program's own.
    """

    directory: str
    name: str | None
    above: tuple[str, ...]
    in_repository: bool
    strangers: bool
    kept_out: tuple[str, ...] = ()


def place_of(path: str, roots: tuple[str, ...]) -> Place:
    """The place at an absolute path.

    Raises:
        OSError: it is not there, is neither a directory nor a regular file, or lies outside the roots.
        ValueError: the path holds a NUL character.
    """
    try:
        with opened_directory(path, roots) as descriptor:
            directory, name = _place_of(descriptor), None
    except NotADirectoryError:
        with opened_file(path, roots) as file:
            directory, name = os.path.split(_place_of(file.fileno()))
    chain = [directory, *map(str, Path(directory).parents)]
    top, in_repository = _top(chain, roots)
    above = chain[1 : chain.index(top) + 1] if top != directory else []
    outside = chain[chain.index(top) + 1 :]
    # git's own rules end with the repository for every program.
    names = IGNORE_FILES[:-1] if in_repository else IGNORE_FILES
    return Place(
        directory=directory,
        name=name,
        above=tuple(reversed(above)),
        in_repository=in_repository,
        strangers=any(os.path.lexists(os.path.join(each, file)) for each in outside for file in names),
        kept_out=own_below(directory),
    )


def _place_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _top(chain: list[str], roots: tuple[str, ...]) -> tuple[str, bool]:
    for each in chain:
        if os.path.exists(os.path.join(each, REPOSITORY)):
            return each, True
    inside = real_roots(roots)
    return next((each for each in chain if each in inside), chain[0]), False
