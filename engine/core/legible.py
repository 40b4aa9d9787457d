"""The source of a statement as a person can read all of it: nothing in it hides, overwrites or reorders what is beside.

Whoever decides whether a statement may run must see every line of it, or be told how much is missing. Lines that are
too long for a screen are broken, and many blank ones are counted, because what is far to the right or far below is not
seen. What Python takes as the end of a line is one, and a character that would not be seen, or would move others, is an
escape. Pure. Called by whatever shows sources: editors, terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from .cutting import cut_middle

LINE_CHARS: Final = 120
"""After so many characters a line of a source goes on in the next."""
TAB_COLUMNS: Final = 4
BLANK_LINES: Final = 3
"""More in a row are counted."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
CONTINUED: Final = "\N{RIGHTWARDS ARROW WITH HOOK} "
"""Begins what goes on from the line before; no line of Python can begin so."""
_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""What counts as printable and is blank, variation selectors among it."""


def divided(line: str) -> Iterator[str]:
    """The line in parts of `LINE_CHARS` characters."""
    yield line[:LINE_CHARS]
    yield from (CONTINUED + line[at : at + LINE_CHARS] for at in range(LINE_CHARS, len(line), LINE_CHARS))


def source_text(source: str, limit: int, divide: Callable[[str], Iterator[str]] = divided) -> str:
    """All lines of a source, legible; of one with more than `limit` characters both ends, which say what is missing.

    Args:
        divide: divides a line that may be too long for whoever shows it.
    """
    return "\n".join(_broken(cut_middle(source, limit), divide))


def source_command(source: str, limit: int) -> str:
    """A source for those that show what was asked for as it came: its lines are whole."""
    return "\n".join(source_lines(cut_middle(source, limit)))


def source_lines(source: str) -> list[str]:
    """The lines of a source, each whole and legible; what Python takes as the end of a line is one."""
    return [legible_line(line) for line in _LINE_END.split(source)]


def legible_line(line: str) -> str:
    """The line with an escape for every character but tab that would not be seen as what it is."""
    if line.replace("\t", " ").isprintable() and _UNSEEN.search(line) is None:
        return line
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in line)


def _broken(source: str, divide: Callable[[str], Iterator[str]]) -> Iterator[str]:
    for is_blank, group in groupby(source_lines(source), lambda line: not line.strip()):
        lines = list(group)
        if is_blank and len(lines) > BLANK_LINES:
            yield f"… {len(lines):,} blank lines …"
            continue
        for line in (line.expandtabs(TAB_COLUMNS) for line in lines):
            yield from divide(line)


def _is_seen(char: str) -> bool:
    return char == "\t" or (char.isprintable() and _UNSEEN.match(char) is None)
