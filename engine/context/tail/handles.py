"""The handle table: one line per handle, within a budget.

Where not all rows fit, those that changed are kept first, then those that run, then the newest; what is kept is in the
order of creation. A section of the tail; `ls()` shows single rows by the same `line`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.cutting import more
from ...files.tails import HandleRow
from .part import EMPTY, Count, Part

HEADING: Final = "Handles (name: type, document, mode, lod, tokens used/budget):\n"


def line(row: HandleRow) -> str:
    """One row of the table, with a newline; a budget of 0 in a row means All."""
    mode = f"{row.mode} {row.freq}".strip()
    allowed = row.tokens or "All"
    changed = ", changed" if row.changed else ""
    return f"{row.name}: {row.obj_type} {row.title}, {mode}, lod {row.lod}, {row.used_tokens}/{allowed}{changed}\n"


class Table:
    """The rows as lines, each counted once, however often the table is made within another budget."""

    __slots__ = ("_costs", "_count", "_lines", "_rows")

    def __init__(self, rows: Sequence[HandleRow], count: Count) -> None:
        self._rows = rows
        self._count = count
        self._lines = [line(row) for row in rows]
        self._costs = [count(text) for text in self._lines]

    def within(self, budget: int) -> Part:
        """The table within `budget` tokens. Empty for no rows, or where nothing fits.

        Whatever is left out is counted in the last line.
        """
        rows, count = self._rows, self._count
        if not rows:
            return EMPTY
        heading = count(HEADING)
        if heading + sum(self._costs) <= budget:
            return self._part(range(len(rows)), "")
        kept = _chosen(rows, self._costs, budget - heading - count(_rest(len(rows))))
        note = _rest(len(rows) - len(kept))
        if not kept:
            return Part(note, count(note)) if count(note) <= budget else EMPTY
        return self._part(kept, note)

    def _part(self, kept: Sequence[int], note: str) -> Part:
        nodes = {self._rows[index].obj_id: self._costs[index] for index in kept}
        text = "".join((HEADING, *(self._lines[index] for index in kept), note))
        tokens = self._count(HEADING) + sum(self._costs[index] for index in kept) + self._count(note)
        return Part(text, tokens, nodes)


def _rest(rows: int) -> str:
    return more(rows, "handle") + "\n"


def _chosen(rows: Sequence[HandleRow], costs: Sequence[int], room: int) -> list[int]:
    """Indices of the rows that fit, chosen in that order of importance, in the order of creation."""
    order = sorted(range(len(rows)), key=lambda index: (rows[index].changed, rows[index].mode == "running", index))
    kept: list[int] = []
    for index in reversed(order):
        if costs[index] > room:
            break
        room -= costs[index]
        kept.append(index)
    return sorted(kept)
