"""The summary of a group: a line for each member, and below it as much of the member as its share of the budget holds.

Pure over the parts: the same parts, budget, level and counter give the same text. Members stand in the order in which
the group has them, whatever their salience, so that a summary changes in one place where one member changes.

First every member gets its line, the salient ones where not all fit. What is left is divided by salience; a member
takes the finest level that its share holds as a whole, and passes on what it does not use. What is still left at the
end goes to the finest level of those that would have taken more. Each text starts with a visible character and ends
with a newline, so that counts add up; the whole is counted once more, because a renderer may break that. Called by
GroupHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..cutting import DOTS
from .group_parts import Part, distinct
from .group_shares import divide, weights
from .rendered import RenderedView

COARSEST: Final = 2
"""The level below which nothing is left but a member's line; the one above it is no coarser one, but shows changes."""
_SMALLEST: Final = 8
"""Tokens below which a body says nothing that its line does not."""
NOTHING: Final = RenderedView(text="", tokens=0)
EMPTY: Final = "(empty group; Add(node) puts one in)"


@dataclass(slots=True)
class _Entry:
    """A member as far as it is laid out. `room` is what its body may take."""

    part: Part
    line: str
    cost: int
    body: str = ""
    tokens: int = 0
    room: int = 0
    is_whole: bool = False

    def take(self, render: RenderedView) -> None:
        self.body, self.tokens, self.is_whole = render.text, render.tokens, render.whole


@dataclass(frozen=True, slots=True)
class _Sheet:
    lod: int
    levels: Sequence[int]
    count: Callable[[str], int]

    def ladder(self, part: Part) -> list[int]:
        """The levels that a member may get, finest first."""
        finest = max(self.lod, part.lod)
        if part.render is None:
            return [finest]
        return [level for level in self.levels if finest <= level <= max(finest, COARSEST)]

    def render(self, part: Part, level: int, room: int) -> RenderedView:
        if part.render is not None:
            return part.render(level, room)
        return _summarized(part.parts, room, _Sheet(level, self.levels, self.count)) if part.parts else NOTHING


def summarize(
    parts: Sequence[Part], budget: int, lod: int, levels: Sequence[int], count: Callable[[str], int]
) -> RenderedView:
    """The summary, never over `budget` tokens; empty where not even "..." fits.

    Args:
        parts: the members, in their order; one that is there twice counts once.
        budget: in tokens, at least 1.
        lod: the finest level that a member may get.
        levels: those that there are.
        count: exact tokens.
    """
    if not parts:
        return _fitting((EMPTY, "(empty)", DOTS), budget, count)
    return _summarized(distinct(parts), budget, _Sheet(lod, levels, count))


def _summarized(parts: Sequence[Part], budget: int, sheet: _Sheet) -> RenderedView:
    count = sheet.count
    entries = [_Entry(part, line := _line(part), count(line)) for part in parts]
    kept, note = _listed(entries, budget, count)
    if not kept:
        return _fitting((f"{DOTS} {_members(len(parts))}", DOTS), budget, count)
    _fill(kept, budget - sum(entry.cost for entry in kept) - count(note), sheet)
    return _written(kept, note, budget, count)


def _line(part: Part) -> str:
    title = part.title if part.name in ("", part.title) else f"{part.name}: {part.title}"
    return f"# {title}\n"


def _members(number: int) -> str:
    return f"{number:,} {'member' if number == 1 else 'members'}"


def _fitting(candidates: Sequence[str], budget: int, count: Callable[[str], int]) -> RenderedView:
    for candidate in candidates:
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens)
    return NOTHING


def _by_salience(entries: Sequence[_Entry]) -> list[_Entry]:
    """The most salient first; of equal ones the earlier."""
    heavy = weights([entry.part.salience for entry in entries], [entry.part.need for entry in entries])
    order = sorted(range(len(entries)), key=lambda index: (-heavy[index], index))
    return [entries[index] for index in order]


def _listed(entries: list[_Entry], budget: int, count: Callable[[str], int]) -> tuple[list[_Entry], str]:
    """The members whose lines fit, in their order, and a line that counts the others."""
    if sum(entry.cost for entry in entries) <= budget:
        return entries, ""
    room = budget - count(_rest(len(entries)))
    chosen: set[int] = set()
    for entry in _by_salience(entries):
        if entry.cost > room:
            break
        room -= entry.cost
        chosen.add(id(entry))
    return [entry for entry in entries if id(entry) in chosen], _rest(len(entries) - len(chosen))


def _rest(number: int) -> str:
    return f"{DOTS} {_members(number)} more\n" if number else ""


def _fill(entries: Sequence[_Entry], room: int, sheet: _Sheet) -> None:
    """Gives each member its body."""
    ordered = _by_salience(entries)
    needs = [entry.part.need for entry in ordered]
    heavy = weights([entry.part.salience for entry in ordered], needs)
    spare = room
    for entry, share in zip(ordered, divide(room, needs, heavy), strict=True):
        entry.room = share
        spare -= share
    for entry in ordered:
        entry.room += spare
        _take_whole(entry, sheet)
        spare = entry.room - entry.tokens
    for entry in ordered:
        spare = _take_more(entry, spare, sheet)


def _take_whole(entry: _Entry, sheet: _Sheet) -> None:
    """The finest level that is whole within the room; where none is, what the coarsest says within it."""
    for level in sheet.ladder(entry.part):
        if entry.room < _SMALLEST:
            return
        render = sheet.render(entry.part, level, entry.room)
        entry.take(render)
        if render.whole:
            return


def _take_more(entry: _Entry, spare: int, sheet: _Sheet) -> int:
    """Takes the finest level as far as it goes, because what is left is of use to nobody else; returns what is left."""
    room = entry.tokens + spare
    ladder = sheet.ladder(entry.part)
    if room < _SMALLEST or not ladder or entry.tokens >= entry.part.need:
        return spare
    render = sheet.render(entry.part, ladder[0], room)
    if render.tokens <= entry.tokens:
        return spare
    entry.take(render)
    return room - render.tokens


def _written(entries: Sequence[_Entry], note: str, budget: int, count: Callable[[str], int]) -> RenderedView:
    """The text; bodies are left out from the least salient on until its exact tokens fit."""
    for entry in [*_by_salience(entries)[::-1], None]:
        text = "".join(entry.line + entry.body for entry in entries) + note
        tokens = count(text)
        if tokens <= budget:
            is_whole = not note and all(entry.is_whole for entry in entries)
            return RenderedView(text=text, tokens=tokens, whole=is_whole)
        if entry is not None:
            entry.body, entry.is_whole = "", False
    return _fitting((DOTS,), budget, count)
