"""The summary of a group: a line for each member, and below it as much of the member as fits.

`summarize` is called by GroupHandle. A summary is a pure function of parts, one immutable value for each member; a
paused group keeps its parts, so its summary stays the same whatever its members do. Members keep the group's order,
whatever their salience, so a change of one member changes a summary in one place. Each text starts with a visible
character and ends with a newline, so the counts of the texts add up; the whole is counted once more, because a renderer
may break that. Must not know nodes.
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
"""Most tokens of a member's line besides its name and title."""


@dataclass(frozen=True, slots=True)
class Salience:
    """Facts that make a part worth more tokens: a pin, a change that no model has read, its last use."""

    pinned: bool = False
    changed: bool = False
    touched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One member with its current content.

    `key` identifies the member, so that one that occurs twice counts once. `name` is its name in statements, and
    `title` its subject; both are one line. `lod` is the finest level of its own policy. `need` is an upper bound of the
    tokens that it could use. `render` returns its text for a level and a budget, at least 1, in tokens; if it is None
    the part is a group, with its own `parts`.
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
    """Return an upper bound of the tokens that a group of these parts could use; each has a line."""
    return sum(part.need + len(f"{part.name}{part.title}".encode("utf-8", "replace")) + _MARKS for part in parts)


def distinct(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Keep each member once in the whole tree: at the place nearest to the top, there the first."""
    found: list[tuple[int, Part]] = []
    seen: set[str] = set()
    level = [(_TOP, part) for part in parts]
    while level:
        # By level, so that places nearer to the top come first. No recursion, because depth has no limit.
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


# --- the text --------------------------------------------------------------------------------------------------------


EMPTY: Final = "(empty group: nothing was added yet)"


def summarize(
    parts: Sequence[Part], budget: int, lod: int, levels: Sequence[int], count: Callable[[str], int]
) -> RenderedView:
    """Write the summary, at most `budget` tokens.

    Empty if not even "..." fits.

    Args:
        parts: the members, in order; one that occurs twice counts once.
        budget: in tokens, at least 1.
        lod: the finest level for a member.
        levels: the existing levels.
        count: exact tokens.
    """
    if not parts:
        return _first((EMPTY, "(empty)", DOTS), budget, count)
    sheet = laid_out(distinct(parts), budget, lod, Measure(levels, count))
    if not any(entry.is_listed for entry in sheet.entries):
        return _first((f"{DOTS} {members(len(sheet.entries))}", DOTS), budget, count, whole=False)
    return _written(sheet, budget, count)


def _first(candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True) -> RenderedView:
    """Return the first of the lines that fits."""
    for candidate in candidates:
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole)
    return RenderedView(text="", tokens=0, whole=False)


def _written(sheet: Sheet, budget: int, count: Callable[[str], int]) -> RenderedView:
    """Write the text.

    Bodies are dropped, the least salient first, until its exact tokens fit.
    """
    bare: set[int] = set()
    for entry in [*reversed(sheet.by_salience), None]:
        text, is_whole = _text(sheet, bare)
        tokens = count(text)
        if tokens <= budget:
            return RenderedView(text=text, tokens=tokens, whole=is_whole)
        bare.add(id(entry))
    return _first((DOTS,), budget, count, whole=False)


def _text(sheet: Sheet, bare: set[int]) -> tuple[str, bool]:
    """Return the text without the bodies of the entries in `bare` (by identity), and whether it is complete."""
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
    """Return whether all members of the group are listed."""
    if group.inner is None:
        return not group.part.parts
    return all(entry.is_listed for entry in group.inner.entries)


def _reversed(sheet: Sheet) -> list[Entry | str]:
    """Return the contents of a group, last first."""
    return [sheet.note, *(entry for entry in reversed(sheet.entries) if entry.is_listed)]


# --- dividing a budget -----------------------------------------------------------------------------------------------


_PINNED: Final = 8.0
_CHANGED: Final = 4.0
_TOUCHED: Final = 2.0
"""For the part that a statement used last; half of it for the one before, and so on."""
_SIZE_UNIT: Final = 64


def weights(saliences: Sequence[Salience], needs: Sequence[int]) -> list[float]:
    """Return the weight of each part, above 0.

    Of two equal ones, the larger weighs a little more.

    `touched` counts by rank: the last used, the one before it, and so on.
    """
    ranks = {number: rank for rank, number in enumerate(sorted({each.touched for each in saliences}, reverse=True))}
    return [
        (1 + _PINNED * each.pinned + _CHANGED * each.changed + _TOUCHED / (1 + ranks[each.touched]))
        * (1 + log2(1 + max(need, 0) / _SIZE_UNIT) / 8)
        for each, need in zip(saliences, needs, strict=True)
    ]


def divide(budget: int, needs: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return the share of each part, 0 to its need, in whole tokens.

    Shares are proportional to the weights, but never exceed the need; the others get what is left. They add up to
    `budget`, or to all needs if these are less. An odd token goes to the heavier part, among equals to the earlier.
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
    """Return proportional shares of `room` in whole tokens, for parts that each need more than that."""
    total = sum(weights[index] for index in parts)
    for index in parts:
        shares[index] = min(int(room * weights[index] / total), needs[index])
    left = room - sum(shares[index] for index in parts)
    for index in sorted(parts, key=lambda index: (-weights[index], index)):
        extra = min(left, 1, needs[index] - shares[index])
        shares[index] += extra
        left -= extra


# --- the layout ------------------------------------------------------------------------------------------------------


_COARSEST: Final = 2
"""Beyond this level there is only the member's line. Level 3 is not coarser; it shows changes."""
_SMALLEST: Final = 8
"""Tokens below which a body adds nothing to its line."""

_Pass: TypeAlias = Generator["_Pass", Any, int]
"""Yields the same pass over an inner group, receives what that left, and returns what is left."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The levels, and exact tokens."""

    levels: Sequence[int]
    count: Callable[[str], int]


@dataclass(slots=True)
class Entry:
    """A member in the layout.

    `line` is its line, with a cost in tokens, if it `is_listed`. Below the line is `body`, with its `tokens`; for a
    group `inner`, None if nothing of it fits. `is_finest`: the body is at the finest level allowed.
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
    """A group in the layout: its members in their order and by salience.

    `lod` is the finest level for them. `limit` are the most tokens below the group's line, and `used` those in use.
    `note` counts the members that are not listed.
    """

    entries: Sequence[Entry]
    by_salience: Sequence[Entry]
    lod: int
    limit: int
    used: int = 0
    note: str = ""


def laid_out(parts: Sequence[Part], budget: int, lod: int, measure: Measure) -> Sheet:
    """Lay out the parts, each once in the tree, within `budget` tokens.

    This takes two passes over the tree. The first fills each group: members get their lines, salient ones first if not
    all fit, and the rest of the budget is divided by salience. A member takes the finest level that fits its share as a
    whole, and leaves the remainder to the next. The second pass gives the remainder of the whole to members that would
    have taken more: those without a line get one, the others as much of their finest level as fits. So a member is
    rendered once for each level and once more, at any depth. Laying out an inner group for each possible room would
    double the time with each level.

    The passes are written as recursions but run without Python's stack (`_run`). Groups nest as deep as statements make
    them, and a summary is also made in places where a stack overflow could not be reported to a statement.
    """
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
    """Write a number of members."""
    return f"{number:,} {'member' if number == 1 else 'members'}"


# --- the passes ------------------------------------------------------------------------------------------------------


def _run(first: _Pass) -> int:
    """Run a pass, and the ones that it yields, and return its result."""
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
    """List as many more members as fit into `room` tokens, and give them bodies."""
    fresh, cost = _list(sheet, room, measure.count)
    shares = divide(room - cost, [entry.part.need for entry in fresh], _weights(fresh))
    spare = room - cost - sum(shares)
    for entry, share in zip(fresh, shares, strict=True):
        spare += share
        if entry.part.render is not None:
            spare -= _take_whole(entry, spare, sheet.lod, measure)
        elif spare >= _SMALLEST:
            # Only if there is room, so that the time for a large tree depends on the budget.
            entry.inner = _inner(entry.part, sheet.lod, measure)
            granted = min(spare, entry.inner.limit)
            spare += (yield _fill(entry.inner, granted, measure)) - granted
    sheet.used += room - spare
    return spare


def _grow(sheet: Sheet, room: int, measure: Measure) -> _Pass:
    """Use up what is left within the group; no other group can use it."""
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
    """List the most salient unlisted members that fit.

    Return them and their cost.
    """
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
    """Return the first entries whose lines fit, with a line that counts the others."""
    if sum(entry.cost for entry in waiting) <= room:
        return waiting
    room -= count(_note(len(waiting), len(waiting) + 1))
    for index, entry in enumerate(waiting):
        room -= entry.cost
        if room < 0:
            return waiting[:index]
    return waiting


def _note(missing: int, number: int) -> str:
    """Write the line that counts the unlisted members of `number`.

    Returns "" for none.
    """
    if not missing:
        return ""
    return f"{DOTS} {members(missing)} more\n" if missing < number else f"{DOTS} {members(missing)}\n"


# --- members ---------------------------------------------------------------------------------------------------------


def _take_whole(entry: Entry, room: int, lod: int, measure: Measure) -> int:
    """Take the finest level that fits `room` as a whole, else part of the coarsest; return the cost."""
    for place, level in enumerate(_ladder(entry.part, lod, measure) if room >= _SMALLEST else ()):
        entry.take(_rendered(entry.part, level, room), is_finest=place == 0)
        if entry.is_whole:
            break
    return entry.tokens


def _take_more(entry: Entry, spare: int, lod: int, measure: Measure) -> int:
    """Take more of the finest level, if that is longer; return the extra cost."""
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
    """Return the levels that a member may get, finest first."""
    finest = max(lod, part.lod)
    return [level for level in measure.levels if finest <= level <= max(finest, _COARSEST)]


def _rendered(part: Part, level: int, room: int) -> RenderedView:
    assert part.render is not None
    return part.render(level, room)
