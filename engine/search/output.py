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

from ..cutting import cut_line

LONGEST_LINE: Final = 4_096
"""Bytes of a line that are printed; of a longer one as many characters, and some words about the rest."""
LINE_CHARS: Final = 400
"""Characters of a line that are kept: so few that a beginning holds them, and none of those words."""
_LINE: Final = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?P<place>.*): (?P<reason>[^:]+) \(os error \d+\)")
_ADVICE: Final = "\n\nConsider enabling"
"""Begins what ripgrep says about options that nobody here can give."""


class FileLines(Struct, frozen=True):
    """What was printed of one file: its path as bytes, and its lines by their numbers."""

    path: bytes
    lines: dict[int, str]
    matches: tuple[int, ...]


class Complaints(Struct, frozen=True):
    """What stood on stderr: places that could not be read, each with the reason, and everything else."""

    unreadable: tuple[tuple[str, str], ...]
    other: str


def read_files(printed: bytes) -> Iterator[FileLines]:
    """The files with lines that match, without those that turned out to be no text. What is cut off at the end counts
    as far as it is complete."""
    at = 0
    while (end := printed.find(b"\0", at)) >= 0:
        path = printed[at:end]
        stop = printed.find(b"\n\n", end)
        block = printed[end + 1 : stop + 1 if stop >= 0 else len(printed)]
        at = stop + 2 if stop >= 0 else len(printed)
        found = _file(path, block[: block.rfind(b"\n") + 1])
        if found is not None:
            yield found


def _file(path: bytes, block: bytes) -> FileLines | None:
    lines: dict[int, str] = {}
    matches: list[int] = []
    for line in block.split(b"\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            if line.removesuffix(b"\r") in (b"", b"--"):
                continue
            return None
        number = int(found[1])
        lines[number] = cut_line(found[3].removesuffix(b"\r").decode("utf-8", "replace"), LINE_CHARS)
        if found[2] == b":":
            matches.append(number)
    return FileLines(path.removeprefix(b"./"), lines, tuple(matches)) if matches else None


def read_names(printed: bytes) -> list[bytes]:
    """The names, relative to the place; one that is cut off at the end is left out."""
    return [name.removeprefix(b"./") for name in printed[: printed.rfind(b"\0") + 1].split(b"\0")[:-1]]


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
