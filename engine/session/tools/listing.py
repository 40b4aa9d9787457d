"""`find(glob, path=".")` and `ls(path)`: files by name, and the entries of a directory."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Final

import msgspec

from ...core.programs import CommandOutcome
from ...core.text import more, plural
from ...files.safe_open import opened_directory
from ...files.search.commands import listing_command, printed, read_names, without_excluded
from ...files.search.globs import read_glob
from ...files.search.ignore_files import Place, place_of
from .bash import Program
from .workspace import Workspace, name_text, path_text

# `find(glob, path=".")`: the files whose names match, but for those that ignore files leave out.
#
# Regular files alone: no links, which may lead anywhere, and no directories. Hidden ones too, but for the directories
# of version control.

MAX_PATHS: Final = 20_000
MAX_CHARS: Final = 2_000_000
"""Of all paths together."""


class FindArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `glob` without a slash matches names in every directory below `path`, one with a slash the path from there."""

    glob: str
    path: str = "."


def find(workspace: Workspace, arguments: FindArguments) -> Program:
    """The search. Its answer is plain data for `runtime.results.paths`.

    Raises:
        OSError: the path is no directory that can be searched, or lies outside the workspace, or there is no ripgrep.
        ValueError: an argument cannot be used.
    """
    glob = read_glob(arguments.glob)
    place = place_of(workspace.absolute(arguments.path), workspace.roots)
    if place.name is not None:
        raise NotADirectoryError(f"{arguments.path} is a file; find() looks below a directory")
    return Program(
        request=listing_command(place, glob, workspace.ripgrep),
        asks=False,
        answer=partial(_answer, workspace, place, re.compile(glob.expression)),
    )


def _answer(workspace: Workspace, place: Place, wanted: re.Pattern[str], outcome: CommandOutcome) -> dict[str, object]:
    output, notes = printed(outcome, _found)
    found = sorted(filter(wanted.fullmatch, read_names(output)))
    names, excluded = without_excluded(place, found, str)
    above = workspace.shown(f"{place.directory.rstrip('/')}/")
    paths: list[str] = []
    room = MAX_CHARS
    for name in names[:MAX_PATHS]:
        room -= len(above) + len(name)
        if room < 0:
            break
        paths.append(path_text(above + name))
    return {"paths": paths, "more": len(names) - len(paths), "notes": notes + excluded}


def _found(output: bytes) -> str:
    count = len(read_names(output))
    return f"{count} {plural(count, 'file')}"


# ls:
# `ls(path)`: the entries of a directory, directories with a trailing slash.

MAX_ENTRIES: Final = 2_000


class LsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


def ls(workspace: Workspace, arguments: LsArguments, limit: int = MAX_ENTRIES) -> list[str]:
    """Names sorted as text; after `limit` a last line says how many there are more.

    Raises:
        OSError: it is no readable directory, or lies outside the workspace.
    """
    path = workspace.absolute(arguments.path)
    with opened_directory(path, workspace.roots) as directory, os.scandir(directory) as entries:
        names = sorted(_name(entry) for entry in entries)
    if len(names) > limit:
        names = [*names[:limit], more(len(names) - limit)]
    return names


def _name(entry: os.DirEntry[str]) -> str:
    name = name_text(entry.name)
    return f"{name}/" if entry.is_dir() else name
