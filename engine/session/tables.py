"""Rows as a block of aligned columns, which every surface shows alike: an editor as code, a terminal as it is.

At most 80 cells wide where its texts can be cut. Pure. Used by the answers of slash commands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import Final
from unicodedata import east_asian_width

from ..core.text import ELLIPSIS, fenced, printable

WIDTH: Final = 80
_GAP: Final = "  "
_NARROWEST: Final = (12, 6)
"""Cells that a column keeps where there is no room: if that is enough, and else."""


def table(
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    yielding: Sequence[int] = (),
    paths: Collection[int] = (),
) -> str:
    """The rows, which have one text for each column, as a fenced block; columns without any text are left out.

    Args:
        right: the columns that are aligned at their right.
        yielding: the columns whose texts are cut where there is no room, in this order.
        paths: the columns whose texts are cut at their beginning, because their ends tell them apart.
    """
    texts = [[printable(text) for text in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*texts, strict=True)]
    filled = [column for column, width in enumerate(widths) if width]
    room = WIDTH - len(_GAP) * (len(filled) - 1)
    for least, column in product(_NARROWEST, yielding):
        excess = sum(widths) - room
        widths[column] = min(widths[column], max(widths[column] - excess, least))
    lines = (
        _GAP.join(
            _padded(_cut(row[column], widths[column], column in paths), widths[column], column in right)
            for column in filled
        ).rstrip()
        for row in texts
    )
    return fenced("\n".join(lines), "text")


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, width: int, is_path: bool) -> str:
    if cells(text) <= width:
        return text
    kept = min(len(text), width - 1)
    while cells(part := text[len(text) - kept :] if is_path else text[:kept]) >= width:
        kept -= 1
    return ELLIPSIS + part if is_path else part + ELLIPSIS


def _padded(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if is_right else text + space
