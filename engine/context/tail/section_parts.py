"""What one section contributes to the tail: a text within a budget, its exact tokens, and which handles they are about.

A section is written as lines: it begins with a visible character that is no slash and ends with a newline, so that the
tokens of sections add up to those of the tail (see `core.tokens.pieces`). Plain values; made by the sections' modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...core.text import DOTS, more
from ...files.tails import HandleRow

Count = Callable[[str], int]
"""Exact tokens of a text."""
_NAMED: Final = 12
"""Of what is left out, so many are named."""


@dataclass(frozen=True, slots=True)
class Part:
    """`nodes` are the tokens that are about one handle, by its id."""

    text: str = ""
    tokens: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])


EMPTY: Final = Part()


@dataclass(frozen=True, slots=True)
class Block:
    """A text about a handle that is shown whole or not at all; it ends with a newline."""

    obj_id: str
    name: str
    text: str


def blocks(
    heading: str, wanted: Sequence[Block], budget: int, count: Count, *, older: int = 0, advice: str = ""
) -> Part:
    """The first of the blocks that fit below `heading`, in their order; a line names the others, or counts them.

    Args:
        older: how many more there are, which only the line counts.
        advice: ends that line: how what is left out can be had.
    """
    if not wanted and not older:
        return EMPTY
    costs = [count(block.text) for block in wanted]
    if not older and count(heading) + sum(costs) <= budget:
        return _part(heading, list(zip(wanted, costs, strict=True)), "", count)
    for named in (_NAMED, 0):  # because a line of long names may have no room where one that counts them has
        room = budget - count(heading) - count(_left_out(wanted, older, advice, named))
        kept: list[tuple[Block, int]] = []
        left: list[Block] = []
        for block, cost in zip(wanted, costs, strict=True):
            if cost <= room:
                room -= cost
                kept.append((block, cost))
            else:
                left.append(block)
        part = _part(heading, kept, _left_out(left, older, advice, named), count)
        if part.tokens <= budget:
            return part
    return EMPTY


def _part(heading: str, kept: Iterable[tuple[Block, int]], note: str, count: Count) -> Part:
    kept = list(kept)
    nodes: dict[str, int] = {}
    for block, cost in kept:
        nodes[block.obj_id] = nodes.get(block.obj_id, 0) + cost
    text = "".join((heading, *(block.text for block, _ in kept), note))
    return Part(text, count(heading) + sum(cost for _, cost in kept) + (count(note) if note else 0), nodes)


def _left_out(left: Sequence[Block], older: int, advice: str, named: int) -> str:
    number = len(left) + older
    if not number:
        return ""
    names = ", ".join(dict.fromkeys(block.name for block in left[:named]))
    which = names and f"{': ' if number == len(left[:named]) else ', among them '}{names}"
    return f"{DOTS} {number} not shown for want of room{which}{advice}\n"


# handles:
# The handle table: one line per handle, within a budget.
#
# Where not all rows fit, those that changed are kept first, then those that run, then the newest; what is kept is in
# the order of creation. A section of the tail; `ls()` shows single rows by the same `line`.

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


# surfaces:
# The groups in the tail, and what is pinned: the surface that a model works on, as it is now.
#
# A group whose summary stands in the result of a statement is named there, and not rendered again; every other is
# shown, the important ones first, each within its own budget, and where there is no room for all of them within less.
# A group that another one shows is left to that. A pinned view is shown where its content has changed since a result
# showed it. Sections of the tail (`sections`); the Board provides the surfaces.

_GROUPS: Final = "Groups, as they are now:\n"
_PINS: Final = "Pinned:\n"
_SMALLEST: Final = 24
"""Tokens below which a surface is not worth its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A group, or a pinned handle.

    `heading` is a line without its colon and newline. `shown_in` is the index of the statement whose result shows it as
    it is, 0 where none does. `render` gives its text within a budget of tokens, and `text` that within its own.
    """

    obj_id: str
    name: str
    heading: str
    text: str
    render: Callable[[int], str]
    shown_in: int = 0


def groups(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """The summaries of groups, the first of them as the more important ones; then where the others are."""
    fresh = [each for each in surfaces if not each.shown_in]
    there = _there([each for each in surfaces if each.shown_in])
    part = _surfaces(_GROUPS, fresh, budget - (count(there) if there else 0), count, bare=False)
    if not there:
        return part
    if not part.text and budget < count(there):
        return EMPTY
    return Part(part.text + there, part.tokens + count(there), part.nodes)


def pins(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """What is pinned, with the reasons, and the content where no result shows it."""
    return _surfaces(_PINS, surfaces, budget, count, bare=True)


def _there(surfaces: Sequence[Surface]) -> str:
    if not surfaces:
        return ""
    named = ", ".join(f"{each.name} (statement {each.shown_in})" for each in surfaces[:_NAMED])
    rest = f" and {len(surfaces) - _NAMED} more" if len(surfaces) > _NAMED else ""
    return f"As results show them: {named}{rest}\n"


def _surfaces(heading: str, wanted: Sequence[Surface], budget: int, count: Count, *, bare: bool) -> Part:
    """As many as fit, whole where there is room for all, else each with what those before it have left.

    Args:
        bare: whether the heading of one says something by itself.
    """
    if not wanted:
        return EMPTY
    whole = [(each, _block(each, each.text)) for each in wanted]
    if count(heading) + sum(count(text) for _, text in whole) <= budget:
        return _surfaces_part(heading, whole, "", count)
    room = budget - count(heading) - count(_surfaces_left_out(wanted))
    kept: list[tuple[Surface, str]] = []
    left: list[Surface] = []
    for place, (each, text) in enumerate(whole):
        # Of what is left, the more important ones may take half, so that the others are not only named.
        share = room if place == len(whole) - 1 else max(room // 2, _SMALLEST)
        block = text if count(text) <= share else _smaller(each, share, count, bare=bare)
        if block and count(block) <= room:
            room -= count(block)
            kept.append((each, block))
        else:
            left.append(each)
    part = _surfaces_part(heading, kept, _surfaces_left_out(left), count) if kept else EMPTY
    return part if part.tokens <= budget else EMPTY


def _smaller(surface: Surface, room: int, count: Count, *, bare: bool) -> str:
    line = _block(surface, "")
    inner = room - count(f"{surface.heading}:\n")
    text = surface.render(inner) if inner >= _SMALLEST and not surface.shown_in else ""
    if text:
        return _block(surface, text)
    return line if bare and inner >= 0 else ""


def _block(surface: Surface, text: str) -> str:
    if surface.shown_in:
        return f"{surface.heading}, as the result of statement {surface.shown_in} shows it\n"
    return f"{surface.heading}:\n{text}" if text else f"{surface.heading}\n"


def _surfaces_part(heading: str, kept: Sequence[tuple[Surface, str]], note: str, count: Count) -> Part:
    costs = [count(text) for _, text in kept]
    nodes = {each.obj_id: cost for (each, _), cost in zip(kept, costs, strict=True)}
    text = "".join((heading, *(text for _, text in kept), note))
    return Part(text, count(heading) + sum(costs) + (count(note) if note else 0), nodes)


def _surfaces_left_out(left: Sequence[Surface]) -> str:
    if not left:
        return ""
    names = ", ".join(each.name for each in left[:_NAMED])
    rest = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"{DOTS} not shown for want of room: {names}{rest}\n"
