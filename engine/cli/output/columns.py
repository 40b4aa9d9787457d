"""Rows of text as aligned columns, for lists of thousands of rows: one pass for the widths, one for the lines.

Widths are those of terminals, where some characters take two cells. Must not know what is listed. Called by commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from ...core.text import ELLIPSIS

_GAP: Final = "  "
_NARROWEST: Final = 5
"""Cells that a column keeps where there is no room."""


def aligned(rows: Sequence[Sequence[str]], width: int | None, yielding: Sequence[int]) -> list[str]:
    """A line for each of the rows, which have one cell for each column, without newlines.

    Args:
        width: cells that a line may take; None for as many as it needs. Lines are longer where even that is too few.
        yielding: the columns that become narrower where there is no room, in this order.
    """
    measured = [[_cells(text) for text in row] for row in rows]
    widths = [max(column) for column in zip(*measured, strict=True)]
    if width is not None:
        _narrow(widths, width - len(_GAP) * (len(widths) - 1), yielding)
    return [_GAP.join(map(_fitted, row, cells, widths)).rstrip() for row, cells in zip(rows, measured, strict=True)]


def _narrow(widths: list[int], room: int, yielding: Sequence[int]) -> None:
    for column in yielding:
        excess = sum(widths) - room
        widths[column] = min(widths[column], max(widths[column] - excess, _NARROWEST))


def _fitted(text: str, cells: int, width: int) -> str:
    if cells > width:
        return set_cell_size(text, width - 1) + ELLIPSIS
    return text + " " * (width - cells)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
