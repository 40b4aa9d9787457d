"""What a search printed, read: lines that matched, names of files, and what could not be read.

One form for ripgrep and our own walk. Names end with NUL, so that they may hold anything else:

    ./src/a.py NUL
    12-a line beside a match
    13:a line that matched
    --
    40:another
                                    an empty line ends a file
    ./b.py NUL ...

A line of text always follows its number, so it is never empty and never a name. Within a file any other line says that
a NUL was met further on, so that this is no text. Called by `commands`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ...core.cutting import cut_line

LONGEST_LINE: Final = 4_096
"""Bytes of a line that are printed; of a longer one as many characters, and some words about the rest."""
LINE_CHARS: Final = 400
"""Characters of a line that are kept: so few that a beginning holds them, and none of those words."""
ALL_LEFT_OUT: Final = "ignore files leave out all files of this place"
"""Stands on stderr where a search below the top found nothing for that reason, which a person would not guess."""
_ROW: Final = re.compile(rb"^(\d+)([:-])([^\n]*?)\r?\n", re.MULTILINE)
_MATCHING: Final = re.compile(rb"^\d+:", re.MULTILINE)
_NO_TEXT: Final = re.compile(rb"^(?!\d+[:-]|--\r?$|\Z)", re.MULTILINE)
"""A row that is none of those above."""
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?P<place>.*): (?P<reason>[^:]+) \(os error \d+\)")
_ADVICE: Final = "\n\nConsider enabling"
"""Begins what ripgrep says about options that nobody here can give."""


class FileLines(Struct, frozen=True):
    """What was printed of one file: its lines by their numbers, and which of them match."""

    lines: dict[int, str]
    matches: tuple[int, ...]


class PrintedFile(Struct, frozen=True):
    """What was printed of one file, not read yet: its path as bytes, relative to the place, and its rows."""

    path: bytes
    rows: bytes

    def count(self) -> int:
        """How many lines match; none of a file that turned out to be no text. Takes much less time than `read`."""
        return 0 if _NO_TEXT.search(self.rows) else len(_MATCHING.findall(self.rows))

    def read(self) -> FileLines:
        """The lines; none of a file that turned out to be no text."""
        if _NO_TEXT.search(self.rows):
            return FileLines({}, ())
        found = [(int(number), mark, text) for number, mark, text in _ROW.findall(self.rows)]
        lines = {number: cut_line(text.decode("utf-8", "replace"), LINE_CHARS) for number, _, text in found}
        return FileLines(lines, tuple(number for number, mark, _ in found if mark == b":"))


class Complaints(Struct, frozen=True):
    """What stood on stderr: places that could not be read, each with the reason, and everything else."""

    unreadable: tuple[tuple[str, str], ...]
    other: str


def read_files(printed: bytes) -> Iterator[PrintedFile]:
    """The files. What is cut off at the end counts as far as it is complete."""
    at = 0
    while (end := printed.find(b"\0", at)) >= 0:
        path = printed[at:end]
        stop = printed.find(b"\n\n", end)
        rows = printed[end + 1 : stop + 1 if stop >= 0 else len(printed)]
        at = stop + 2 if stop >= 0 else len(printed)
        yield PrintedFile(path.removeprefix(b"./"), rows[: rows.rfind(b"\n") + 1])


def read_names(printed: bytes) -> list[str]:
    """The names, relative to the place, with surrogates for what is no UTF-8; one cut off at the end is left out."""
    text = printed[: printed.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    return text.removeprefix("./").replace("\0./", "\0").split("\0")[:-1]


def read_complaints(said: bytes) -> Complaints:
    """What a program said on stderr."""
    unreadable: list[tuple[str, str]] = []
    other: list[str] = []
    for line in said.decode("utf-8", "replace").splitlines():
        found = _UNREADABLE.fullmatch(line)
        if found is None:
            other.append(line.removeprefix("rg: "))
        else:
            unreadable.append((found["place"].removeprefix("./"), found["reason"]))
    return Complaints(tuple(unreadable), "\n".join(other).partition(_ADVICE)[0].strip())
