"""The handle table: one line per handle, within a budget.

Where not all rows fit, those that changed are kept first, then those that run, then the newest; what is kept is in the
order of creation. A section of the tail; `ls()` shows single rows by the same `line`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..cutting import more
from ..ports import HandleRow
from .part import EMPTY, Count, Part

HEADING: Final = "Handles (name: type, document, mode, lod, tokens used/budget):\n"


def line(row: HandleRow) -> str:
    """One row of the table, with a newline; a budget of 0 in a row means All."""
    mode = f"{row.mode} {row.freq}".strip()
    allowed = row.tokens or "All"
    changed = ", changed" if row.changed else ""
    return f"{row.name}: {row.obj_type} {row.title}, {mode}, lod {row.lod}, {row.used_tokens}/{allowed}{changed}\n"


def table(rows: Sequence[HandleRow], budget: int, count: Count) -> Part:
    """The table of `rows` within `budget` tokens. Empty for no rows, or where nothing fits.

    Whatever is left out is counted in the last line.
    """
    lines = [line(row) for row in rows]
    costs = [count(text) for text in lines]
    total = sum(costs)
    heading = count(HEADING)
    if not rows:
        return EMPTY
    if heading + total <= budget:
        nodes = {row.obj_id: cost for row, cost in zip(rows, costs, strict=True)}
        return Part(HEADING + "".join(lines), heading + total, nodes)
    kept = _chosen(rows, costs, budget - heading - count(_rest(len(rows))))
    if not kept:
        note = _rest(len(rows))
        return Part(note, count(note)) if count(note) <= budget else EMPTY
    note = _rest(len(rows) - len(kept))
    text = HEADING + "".join(lines[index] for index in kept) + note
    nodes = {rows[index].obj_id: costs[index] for index in kept}
    return Part(text, heading + sum(nodes.values()) + count(note), nodes)


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
