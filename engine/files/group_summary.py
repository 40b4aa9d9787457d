"""What a group's summary is made of: one immutable value for each member, taken when the summary is made anew.

A paused group keeps its parts, so it shows what it showed, whatever becomes of its members. Must not know nodes. Made
by nodes; divided by `group_shares`, written out by `group_summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Final, TypeAlias

from ..core.text import DOTS
from .rendered import RenderedView

_TOP: Final = -1
_MARKS: Final = 6
"""Tokens of a member's line besides its name and title, at most."""


@dataclass(frozen=True, slots=True)
class Salience:
    """What makes a part worth more tokens than another: its pin, a change that no model has read, its last use."""

    pinned: bool = False
    changed: bool = False
    touched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One member, as it is now.

    `key` says which member it is, so that one that is met twice counts once. `name` is what statements call it, and
    `title` what it is about; both are on one line. `lod` is the finest level that it asks for by itself. `need` is at
    least as many tokens as it could use. `render` gives its text for a level and a budget, at least 1, in tokens; where
    it is None the part is a group, and `parts` are its own.
    """

    key: str
    name: str
    title: str
    lod: int
    need: int
    render: Callable[[int, int], RenderedView] | None
    salience: Salience = Salience()
    parts: tuple[Part, ...] = ()


def need_of(parts: Sequence[Part]) -> int:
    """At least as many tokens as a group of these could use: each has a line of its own."""
    return sum(part.need + len(f"{part.name}{part.title}".encode("utf-8", "replace")) + _MARKS for part in parts)


def distinct(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Each member once in the whole tree: at the place that is nearest to the top, and of those the first."""
    found: list[tuple[int, Part]] = []
    seen: set[str] = set()
    level = [(_TOP, part) for part in parts]
    while level:
        # By level, so that what is nearer to the top comes first; and not by recursion, because nothing bounds depth.
        first = len(found)
        for holder, part in level:
            if part.key not in seen:
                seen.add(part.key)
                found.append((holder, part))
        level = [(index, inner) for index in range(first, len(found)) for inner in found[index][1].parts]
    held: dict[int, list[Part]] = {}
    for index in range(len(found) - 1, -1, -1):
        holder, part = found[index]
        whole = replace(part, parts=tuple(reversed(held.get(index, ())))) if part.parts else part
        held.setdefault(holder, []).append(whole)
    return tuple(reversed(held.get(_TOP, ())))


# group shares:
# How a budget is divided among the parts of a group. Pure arithmetic; knows neither text nor nodes.
#
# Each part gets tokens in proportion to its weight, but no more than it can use; what one does not use, the others
# get. So nothing is left over while anybody could use it. Called by `group_summary`.

_PINNED: Final = 8.0
_CHANGED: Final = 4.0
_TOUCHED: Final = 2.0
"""For the part that a statement used last; half of it for the one before, and so on."""
_SIZE_UNIT: Final = 64


def weights(saliences: Sequence[Salience], needs: Sequence[int]) -> list[float]:
    """What each part weighs, above 0. Of two that are alike in all else, the one that needs more weighs a little more.

    `touched` counts by rank: who was used last, who before that.
    """
    ranks = {number: rank for rank, number in enumerate(sorted({each.touched for each in saliences}, reverse=True))}
    return [
        (1 + _PINNED * each.pinned + _CHANGED * each.changed + _TOUCHED / (1 + ranks[each.touched]))
        * (1 + log2(1 + max(need, 0) / _SIZE_UNIT) / 8)
        for each, need in zip(saliences, needs, strict=True)
    ]


def divide(budget: int, needs: Sequence[int], weights: Sequence[float]) -> list[int]:
    """The share of each, 0 to its need, in whole tokens. They come to `budget`, or to all needs where that is less.

    Where whole tokens do not divide, the heavier part gets the odd one, and of equal ones the earlier.
    """
    shares = [0] * len(needs)
    open_parts: list[int] = [index for index, need in enumerate(needs) if need > 0]
    room = max(budget, 0)
    while open_parts and room > 0:
        total = sum(weights[index] for index in open_parts)
        filled: list[int] = [index for index in open_parts if needs[index] <= room * weights[index] / total]
        if not filled:
            _round(shares, open_parts, room, weights, needs)
            break
        for index in filled:
            shares[index] = needs[index]
        room -= sum(needs[index] for index in filled)
        open_parts = [index for index in open_parts if shares[index] == 0]
    return shares


def _round(shares: list[int], parts: Sequence[int], room: int, weights: Sequence[float], needs: Sequence[int]) -> None:
    """Proportional shares of `room` in whole tokens, for parts of which each needs more than that."""
    total = sum(weights[index] for index in parts)
    for index in parts:
        shares[index] = min(int(room * weights[index] / total), needs[index])
    left = room - sum(shares[index] for index in parts)
    for index in sorted(parts, key=lambda index: (-weights[index], index)):
        extra = min(left, 1, needs[index] - shares[index])
        shares[index] += extra
        left -= extra


# group layout:
# How the budget of a group goes through the tree of its members: who gets a line, and what stands below it.
#
# Two passes over the tree. The first fills each group: its members get their lines, the salient ones where not all
# fit, and what is left is divided by salience; a member takes the finest level that its share holds as a whole, and
# what it does not use goes on to the next. The second gives what is left of it all to those that would have taken
# more: members without a line get one, the others their finest level as far as it goes. So a member is rendered once
# for each level and once more, however deep it is. To lay out an inner group anew for every room that it might get
# would double the time with each level.
#
# The passes are written as recursions and run without Python's stack (`_run`), because groups nest as deep as
# statements have them, and a summary is also made where no statement could be told of a stack that came to its end.
# Called by `group_summary`.

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


# group summary:
# The summary of a group: a line for each member, and below it as much of the member as its share of the budget holds.
#
# Pure over the parts: the same parts, budget, level and counter give the same text. Members stand in the order in
# which the group has them, whatever their salience, so that a summary changes in one place where one member changes.
# Who gets how much is decided by `group_layout`. Each text starts with a visible character and ends with a newline,
# so that counts add up; the whole is counted once more, because a renderer may break that. Called by GroupHandle.

EMPTY: Final = "(empty group: nothing was added yet)"


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
        return _first((EMPTY, "(empty)", DOTS), budget, count)
    sheet = laid_out(distinct(parts), budget, lod, Measure(levels, count))
    if not any(entry.is_listed for entry in sheet.entries):
        return _first((f"{DOTS} {members(len(sheet.entries))}", DOTS), budget, count, whole=False)
    return _written(sheet, budget, count)


def _first(candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True) -> RenderedView:
    """The first of the lines that fits."""
    for candidate in candidates:
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole)
    return RenderedView(text="", tokens=0, whole=False)


def _written(sheet: Sheet, budget: int, count: Callable[[str], int]) -> RenderedView:
    """The text; bodies are left out from the least salient on until its exact tokens fit."""
    bare: set[int] = set()
    for entry in [*reversed(sheet.by_salience), None]:
        text, is_whole = _text(sheet, bare)
        tokens = count(text)
        if tokens <= budget:
            return RenderedView(text=text, tokens=tokens, whole=is_whole)
        bare.add(id(entry))
    return _first((DOTS,), budget, count, whole=False)


def _text(sheet: Sheet, bare: set[int]) -> tuple[str, bool]:
    """The text without what stands below the entries in `bare`, by their identity; and whether nothing is left out."""
    texts: list[str] = []
    is_whole = True
    waiting: list[Entry | str] = _reversed(sheet)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            texts.append(entry)
            is_whole = is_whole and not entry
            continue
        texts.append(entry.line)
        if id(entry) in bare:
            is_whole = False
        elif entry.part.render is None:
            is_whole = is_whole and _is_listed(entry)
            waiting += _reversed(entry.inner) if entry.inner is not None else []
        else:
            texts.append(entry.body)
            is_whole = is_whole and entry.is_whole
    return "".join(texts), is_whole


def _is_listed(group: Entry) -> bool:
    """Whether all members of the group have their lines."""
    if group.inner is None:
        return not group.part.parts
    return all(entry.is_listed for entry in group.inner.entries)


def _reversed(sheet: Sheet) -> list[Entry | str]:
    """What stands in a group, the last of it first."""
    return [sheet.note, *(entry for entry in reversed(sheet.entries) if entry.is_listed)]
