"""How the budget of a group goes through the tree of its members: who gets a line, and what stands below it.

Two passes over the tree. The first fills each group: its members get their lines, the salient ones where not all fit,
and what is left is divided by salience; a member takes the finest level that its share holds as a whole, and what it
does not use goes on to the next. The second gives what is left of it all to those that would have taken more: members
without a line get one, the others their finest level as far as it goes. So a member is rendered once for each level and
once more, however deep it is. To lay out an inner group anew for every room that it might get would double the time
with each level.

The passes are written as recursions and run without Python's stack (`_run`), because groups nest as deep as statements
have them, and a summary is also made where no statement could be told of a stack that came to its end. Called by
`group_summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..core.cutting import DOTS
from .group_parts import Part
from .group_shares import divide, weights
from .rendered import RenderedView

_COARSEST: Final = 2
"""The level below which nothing is left but a member's line; the one above it is no coarser one, but shows changes."""
_SMALLEST: Final = 8
"""Tokens below which a body says nothing that its line does not."""

_Pass: TypeAlias = Generator["_Pass", Any, int]
"""Yields the same pass over a group within this one, is sent what that left over, and returns what it left itself."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is the same in the whole tree: the levels that there are, and exact tokens."""

    levels: Sequence[int]
    count: Callable[[str], int]


@dataclass(slots=True)
class Entry:
    """A member as far as it is laid out.

    `line` stands for it, at a cost in tokens, where it `is_listed`. Below it stands `body`, of so many `tokens`, or for
    a group `inner`, None where there is no room for any of it. `is_finest`: the body is at the finest level it may be.
    """

    part: Part
    line: str
    cost: int
    inner: Sheet | None = None
    is_listed: bool = False
    is_whole: bool = False
    is_finest: bool = False
    body: str = ""
    tokens: int = 0

    def take(self, render: RenderedView, *, is_finest: bool) -> None:
        self.body, self.tokens, self.is_whole = render.text, render.tokens, render.whole
        self.is_finest = is_finest


@dataclass(slots=True)
class Sheet:
    """A group as far as it is laid out: its members in their order and by salience.

    `lod` is the finest level that they may get; `limit` are the most tokens that all that stands below the group's line
    may take, and `used` those that it does. `note` counts the members that are not listed.
    """

    entries: Sequence[Entry]
    by_salience: Sequence[Entry]
    lod: int
    limit: int
    used: int = 0
    note: str = ""


def laid_out(parts: Sequence[Part], budget: int, lod: int, measure: Measure) -> Sheet:
    """The parts, each of which is in the tree once, with what of them fits into `budget` tokens."""
    sheet = _sheet(parts, lod, budget, measure)
    left = _run(_fill(sheet, budget, measure))
    _run(_grow(sheet, left, measure))
    return sheet


def _sheet(parts: Sequence[Part], lod: int, limit: int, measure: Measure) -> Sheet:
    entries = [Entry(part, line := _line(part), measure.count(line)) for part in parts]
    heavy = _weights(entries)
    order = sorted(range(len(entries)), key=lambda index: (-heavy[index], index))
    return Sheet(entries, [entries[index] for index in order], lod, limit)


def _inner(part: Part, lod: int, measure: Measure) -> Sheet:
    return _sheet(part.parts, max(lod, part.lod), part.need, measure)


def _line(part: Part) -> str:
    title = part.title if part.name in ("", part.title) else f"{part.name}: {part.title}"
    return f"# {title}\n"


def _weights(entries: Sequence[Entry]) -> list[float]:
    return weights([entry.part.salience for entry in entries], [entry.part.need for entry in entries])


def members(number: int) -> str:
    """So many members."""
    return f"{number:,} {'member' if number == 1 else 'members'}"


# --- the passes ------------------------------------------------------------------------------------------------------


def _run(first: _Pass) -> int:
    """What a pass returns, with those that it yields run in their turn."""
    under_way, result = [first], None
    while under_way:
        try:
            inner = under_way[-1].send(result)
        except StopIteration as ended:
            under_way.pop()
            result = ended.value
        else:
            under_way.append(inner)
            result = None
    return result or 0


def _fill(sheet: Sheet, room: int, measure: Measure) -> _Pass:
    """Lists as many more members as fit into `room` tokens, and gives those their bodies."""
    fresh, cost = _list(sheet, room, measure.count)
    shares = divide(room - cost, [entry.part.need for entry in fresh], _weights(fresh))
    spare = room - cost - sum(shares)
    for entry, share in zip(fresh, shares, strict=True):
        spare += share
        if entry.part.render is not None:
            spare -= _take_whole(entry, spare, sheet.lod, measure)
        elif spare >= _SMALLEST:
            # Not before there is room, so that what a summary takes of a large tree depends on its budget.
            entry.inner = _inner(entry.part, sheet.lod, measure)
            granted = min(spare, entry.inner.limit)
            spare += (yield _fill(entry.inner, granted, measure)) - granted
    sheet.used += room - spare
    return spare


def _grow(sheet: Sheet, room: int, measure: Measure) -> _Pass:
    """Gives what is left, as far as anybody within the group can use it: nobody else can."""
    spare: int = yield _fill(sheet, room, measure)
    before = spare
    for entry in sheet.by_salience:
        if not entry.is_listed:
            continue
        if entry.part.render is not None:
            spare -= _take_more(entry, spare, sheet.lod, measure)
        elif entry.inner is not None or spare >= _SMALLEST:
            entry.inner = entry.inner or _inner(entry.part, sheet.lod, measure)
            granted = min(spare, entry.inner.limit - entry.inner.used)
            spare += (yield _grow(entry.inner, granted, measure)) - granted
    sheet.used += before - spare
    return spare


def _list(sheet: Sheet, room: int, count: Callable[[str], int]) -> tuple[Sequence[Entry], int]:
    """Lists the most salient of the members that are not listed, as many as fit; returns them, and what that takes."""
    waiting = [entry for entry in sheet.by_salience if not entry.is_listed]
    if not waiting:
        return (), 0
    noted = count(sheet.note) if sheet.note else 0
    fresh = _fitting(waiting, room + noted, count)
    for entry in fresh:
        entry.is_listed = True
    cost = sum(entry.cost for entry in fresh)
    sheet.note = _note(len(waiting) - len(fresh), len(sheet.entries))
    if sheet.note and cost + count(sheet.note) > room + noted:
        sheet.note = ""
    return fresh, cost + (count(sheet.note) if sheet.note else 0) - noted


def _fitting(waiting: Sequence[Entry], room: int, count: Callable[[str], int]) -> Sequence[Entry]:
    """The first of the entries whose lines fit, with one that counts the others."""
    if sum(entry.cost for entry in waiting) <= room:
        return waiting
    room -= count(_note(len(waiting), len(waiting) + 1))
    for index, entry in enumerate(waiting):
        room -= entry.cost
        if room < 0:
            return waiting[:index]
    return waiting


def _note(missing: int, number: int) -> str:
    """The line that counts the members of `number` that are not listed; empty where all are."""
    if not missing:
        return ""
    return f"{DOTS} {members(missing)} more\n" if missing < number else f"{DOTS} {members(missing)}\n"


# --- members ---------------------------------------------------------------------------------------------------------


def _take_whole(entry: Entry, room: int, lod: int, measure: Measure) -> int:
    """Takes the finest level that is whole within the room, else what the coarsest says; returns what that takes."""
    for place, level in enumerate(_ladder(entry.part, lod, measure) if room >= _SMALLEST else ()):
        entry.take(_rendered(entry.part, level, room), is_finest=place == 0)
        if entry.is_whole:
            break
    return entry.tokens


def _take_more(entry: Entry, spare: int, lod: int, measure: Measure) -> int:
    """Takes the finest level as far as it goes, if that is more; returns how much more."""
    before, room = entry.tokens, entry.tokens + spare
    ladder = _ladder(entry.part, lod, measure)
    has_all = entry.is_whole and entry.is_finest
    if has_all or room < _SMALLEST or not ladder or before >= entry.part.need:
        return 0
    render = _rendered(entry.part, ladder[0], room)
    if render.tokens > before:
        entry.take(render, is_finest=True)
    return entry.tokens - before


def _ladder(part: Part, lod: int, measure: Measure) -> Sequence[int]:
    """The levels that a member may get, finest first."""
    finest = max(lod, part.lod)
    return [level for level in measure.levels if finest <= level <= max(finest, _COARSEST)]


def _rendered(part: Part, level: int, room: int) -> RenderedView:
    assert part.render is not None
    return part.render(level, room)
