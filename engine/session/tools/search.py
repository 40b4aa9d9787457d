"""`grep(pattern, path=".", glob=None, context=0)`: the lines of files that match a regular expression.

Ignored and binary files are not searched. Hidden files are, except in the directories of version control. The
expression is ripgrep's (https://docs.rs/regex), without look-around and references. Also `find` and `ls`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from ...core.encodings import decode
from ...core.programs import CommandOutcome
from ...core.text import more, plural
from ...files.revision import lines_of
from ...files.safe_open import opened_directory, opened_file
from ...files.search.commands import (
    FileLines,
    HideLines,
    PrintedFile,
    listing_command,
    printed,
    read_files,
    read_names,
    search_command,
    without_excluded,
)
from ...files.search.globs import Glob, read_glob
from ...files.search.ignore_files import Place, place_of
from ...files.spellings import composed
from .bash import Program
from .workspace import Workspace, name_text, path_text

MAX_MATCHES: Final = 5_000
MAX_CHARS: Final = 2_000_000
"""Of all matches together, with their context lines."""
MAX_CONTEXT: Final = 50
MAX_PATTERN: Final = 10_000
"""In characters, because an argument of a program has a limit."""
_LOOKED_AT: Final = 8_192
_WHOLE: Final = 1 << 20
"""The most bytes of a file that is read whole, for secrets on several lines."""
_WHOLE_IN_ALL: Final = 16 << 20
"""Of all files of a search."""
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, whose text contains many NUL bytes."""

_Match = tuple[str, int, str, list[str], list[str]]
"""The path, number and text of a line, and its context lines before and after."""


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`glob` selects files below `path`. A match comes with `context` lines before and after it."""

    pattern: str
    path: str = "."
    glob: str | None = None
    context: int = 0


def grep(workspace: Workspace, arguments: GrepArguments) -> Program:
    """The search. Its answer is plain data for `runtime.results.matches`.

    Raises:
        OSError: the path cannot be searched, or is outside the workspace; or there is no ripgrep.
        ValueError: an argument cannot be used.
    """
    _check(arguments)
    glob = None if arguments.glob is None else read_glob(arguments.glob)
    place = place_of(workspace.absolute(arguments.path), workspace.roots)
    if place.name is not None:
        _check_text(workspace, arguments)
    return Program(
        request=search_command(place, glob, workspace.ripgrep, arguments.pattern, arguments.context),
        asks=False,
        answer=partial(_answer, workspace, place, _wanted(place, glob), arguments.context),
    )


def _wanted(place: Place, glob: Glob | None) -> re.Pattern[str]:
    """A pattern that matches the wanted paths. Ripgrep gets the glob too, but may search more files."""
    name = "" if place.name is None else rf"(?={re.escape(composed(place.name))}\Z)"
    return re.compile(name + (".*" if glob is None else glob.expression), re.DOTALL)


def _check(arguments: GrepArguments) -> None:
    pattern = arguments.pattern
    if not pattern:
        raise ValueError("an empty pattern matches every line; find() lists files, read() returns their text")
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern may have at most {MAX_PATTERN} characters; this one has {len(pattern)}")
    if "\0" in pattern or "\n" in pattern:
        raise ValueError("a pattern cannot contain a NUL character or a newline, because lines are searched one by one")
    if not 0 <= arguments.context <= MAX_CONTEXT:
        raise ValueError(f"context={arguments.context} must be between 0 and {MAX_CONTEXT}")


def _check_text(workspace: Workspace, arguments: GrepArguments) -> None:
    with opened_file(workspace.absolute(arguments.path), workspace.roots) as file:
        beginning = file.read(_LOOKED_AT)
    if b"\0" in beginning and not beginning.startswith(_WIDE):
        raise ValueError(f"{arguments.path} is not text; read its bytes with open(..., 'rb') in the statement")


def _answer(
    workspace: Workspace, place: Place, wanted: re.Pattern[str], context: int, outcome: CommandOutcome
) -> dict[str, object]:
    output, notes = printed(outcome, _found)
    found = (each for each in read_files(output) if wanted.fullmatch(composed(_text(each.path))))
    files, excluded = without_excluded(place, sorted(found, key=_path), lambda file: _text(file.path))
    above = workspace.shown(f"{place.directory.rstrip('/')}/")
    matches: list[_Match] = []
    left_out: list[int] = []
    room, hiding = MAX_CHARS, _Hiding(workspace, place)
    for file in files:
        kept = 0
        if room > 0 and len(matches) < MAX_MATCHES:
            for match in islice(
                _matches(path_text(above + _text(file.path)), file.read(hiding.of(file)), context),
                MAX_MATCHES - len(matches),
            ):
                matches.append(match)
                kept += 1
                room -= _size(match)
                if room <= 0:
                    break
        left_out.append(file.count() - kept)
    left_out = [count for count in left_out if count]
    return {"matches": matches, "more": sum(left_out), "more_files": len(left_out), "notes": notes + excluded}


class _Hiding:
    """Hides secrets in the printed lines of files, also those that stand on several lines: it reads whole files.

    Which files it reads must depend on nothing but their sizes. Who chooses lines, and sees how long a search takes,
    could otherwise find out a secret, one character after the other.
    """

    def __init__(self, workspace: Workspace, place: Place) -> None:
        self._workspace = workspace
        self._place = place
        self._room = _WHOLE_IN_ALL

    def of(self, file: PrintedFile) -> HideLines:
        return partial(self._hidden, os.path.join(self._place.directory, _text(file.path)))

    def _hidden(self, path: str, printed: Mapping[int, str]) -> Mapping[int, str]:
        texts = dict(zip(printed, lines_of("\n".join(printed.values()), self._workspace.hide), strict=True))
        hidden = self._workspace.hide(self._whole(path))
        for number in printed:
            if number - 1 in hidden:
                texts[number] = hidden[number - 1].removesuffix("\r")
        return texts

    def _whole(self, path: str) -> str:
        """Return the text of the file, if it is not too large."""
        try:
            with opened_file(path, self._workspace.roots) as file:
                size = os.fstat(file.fileno()).st_size
                if size > min(_WHOLE, self._room):
                    return ""
                self._room -= size
                found = decode(file.read(_WHOLE))
        except OSError:
            return ""
        return "" if found is None else found.text


def _matches(path: str, file: FileLines, context: int) -> Iterator[_Match]:
    for number in file.matches:
        before = _lines(file, range(number - context, number))
        yield path, number, file.lines[number], before, _lines(file, range(number + 1, number + 1 + context))


def _size(match: _Match) -> int:
    path, _, text, before, after = match
    return len(path) + len(text) + sum(map(len, before)) + sum(map(len, after))


def _lines(file: FileLines, numbers: range) -> list[str]:
    return [file.lines[number] for number in numbers if number in file.lines]


def _found(output: bytes) -> str:
    counts = list(filter(None, (file.count() for file in read_files(output))))
    lines, files = sum(counts), len(counts)
    return f"{lines} {plural(lines, 'matching line')} in {files} {plural(files, 'file')}"


def _path(file: PrintedFile) -> bytes:
    return file.path


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


# --- find: regular files by name; links are left out, because they may lead anywhere ----------------------------------

MAX_PATHS: Final = 20_000


class FindArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `glob` without a slash matches names in any directory below `path`; one with a slash matches relative paths."""

    glob: str
    path: str = "."


def find(workspace: Workspace, arguments: FindArguments) -> Program:
    """The search. Its answer is plain data for `runtime.results.paths`.

    Raises:
        OSError: the path is not a searchable directory, or is outside the workspace; or there is no ripgrep.
        ValueError: an argument cannot be used.
    """
    glob = read_glob(arguments.glob)
    place = place_of(workspace.absolute(arguments.path), workspace.roots)
    if place.name is not None:
        raise NotADirectoryError(f"{arguments.path} is a file; find() searches a directory")
    return Program(
        request=listing_command(place, glob, workspace.ripgrep),
        asks=False,
        answer=partial(_listing_answer, workspace, place, re.compile(glob.expression)),
    )


def _listing_answer(
    workspace: Workspace, place: Place, wanted: re.Pattern[str], outcome: CommandOutcome
) -> dict[str, object]:
    output, notes = printed(outcome, _listing_found)
    found = sorted(name for name in read_names(output) if wanted.fullmatch(composed(name)))
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


def _listing_found(output: bytes) -> str:
    count = len(read_names(output))
    return f"{count} {plural(count, 'file')}"


# --- ls: the entries of a directory -----------------------------------------------------------------------------------

MAX_ENTRIES: Final = 2_000


class LsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


def ls(workspace: Workspace, arguments: LsArguments, limit: int = MAX_ENTRIES) -> list[str]:
    """The names, sorted as text; after `limit` names a last line counts the others.

    Raises:
        OSError: it is not a readable directory, or is outside the workspace.
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
