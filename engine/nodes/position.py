"""Where in a document a view stands: the forms of `pos`, and what they mean in given content.

`"line:col"` and `"line"` count lines from 1 (0 means 1) and columns from 0 in characters; an int is a character offset
in the decoded text. A position past the end means the last line. Called by ViewHandle and the renderers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

Pos = str | int
_LINE_COLUMN: Final = re.compile(r"([0-9]{1,12})(?::([0-9]{1,12}))?")


class Place(NamedTuple):
    """A line, counted from 0, and a column in it."""

    line: int
    column: int


def checked_pos(pos: object) -> Pos:
    """`pos` if it has one of the forms above.

    Raises:
        ValueError: it has not; the message says which forms there are.
    """
    if isinstance(pos, int) and not isinstance(pos, bool) and pos >= 0:
        return int(pos)
    if isinstance(pos, str) and _LINE_COLUMN.fullmatch(pos.strip()):
        return pos.strip()
    raise ValueError(f'pos={pos!r} is no place this version can find: give "line:col", "line" or a character offset')


def resolve(pos: Pos, lines: Sequence[str], first_line: int = 1) -> Place:
    """The place of a checked `pos` in `lines`, which carry no newline. Without lines it is 0, 0.

    `first_line` is the number of the first of them; a position before it means it.
    """
    if isinstance(pos, int):
        return _at_offset(pos, lines)
    match = _LINE_COLUMN.fullmatch(pos)
    if match is None or not lines:
        return Place(0, 0)
    line = min(max(int(match[1]) - first_line, 0), len(lines) - 1)
    return Place(line, min(int(match[2] or 0), len(lines[line])))


def _at_offset(offset: int, lines: Sequence[str]) -> Place:
    for line, text in enumerate(lines):
        if offset <= len(text):
            return Place(line, offset)
        offset -= len(text) + 1
    return Place(max(len(lines) - 1, 0), len(lines[-1]) if lines else 0)
