"""The summary of a group: a line for each member, and below it as much of the member as fits.

`summarize` is called by GroupHandle. A summary is a pure function of parts, one immutable value for each member; a
paused group keeps its parts, so its summary stays the same whatever its members do. Members keep the group's order,
whatever their salience, so a change of one member changes a summary in one place. Each text starts with a visible
character and ends with a newline, so the counts of the texts add up; the whole is counted once more, because a renderer
may break that. Must not know nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p, log2
from typing import Final, NamedTuple, cast

from ..core.text import DOTS
from .filling import EMPTY as EMPTY_LADDER
from .filling import Ladder
from .rendered import RenderedView

_TOP: Final = -1
_MARKS: Final = 6
"""Most tokens of a member's line besides its name and title."""


@dataclass(frozen=True, slots=True)
class Salience:
    """Facts that make a part worth more tokens: a pin, a change that no model has read, and two statements.

    `touched` is the number of the last statement that used it, `edited` that of the last one that wrote its file.
    """

    pinned: bool = False
    changed: bool = False
    touched: int = 0
    edited: int = 0


Rules = Mapping[str, float]
RULES: Final[Rules] = {"pinned": 8.0, "changed": 4.0, "touched": 2.0, "edited": 2.0, "size": 1.0, "name": 0.0}
"""How much each fact is worth beside 1 for each member.

`touched` and `edited` are for the part that a statement used or wrote last, half of it for the one before, and so on.
`size` favours large parts a little, `name` those whose names come first.
"""
MOST_WORTH: Final = 1_000.0


def checked_rules(rules: Mapping[str, object]) -> dict[str, float]:
    """Return the rules with these worths in place of the defaults.

    Raises:
        ValueError: a name is unknown, or a worth is no number from 0 to 1,000.
    """
    for name, worth in rules.items():
        if name not in RULES:
            raise ValueError(f"{name}={worth!r}: there is no such rule; use one of {', '.join(RULES)}")
        if isinstance(worth, bool) or not isinstance(worth, int | float) or not 0 <= worth <= MOST_WORTH:
            raise ValueError(f"{name}={worth!r}: give a number from 0 to {MOST_WORTH:,.0f}")
    return {name: float(cast("float", rules.get(name, default))) for name, default in RULES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One member with its current content.

    `key` identifies the member, so that one that occurs twice counts once. `name` is its name in statements, and
    `title` its subject; both are one line. `lod` is the finest level of its own policy. `need` is an upper bound of the
    tokens that it could use. `ladder` returns its texts for a level and a limit in tokens, at least 1, sparing or not
    (see `Scene`); if it is None the part is a group, with its own `parts`. `rolled`: these are files whose titles are
    paths, which share rows until something else of them is shown.
    """

    key: str
    name: str
    title: str
    lod: int
    need: int
    ladder: Callable[[int, int, bool], Ladder] | None
    salience: Salience = Salience()
    parts: tuple[Part, ...] = ()
    rolled: bool = False


def need_of(parts: Sequence[Part]) -> int:
    """Return an upper bound of the tokens that a group of these parts could use; each has a line."""
    return sum(part.need + len(f"{part.name}{part.title}".encode("utf-8", "replace")) + _MARKS for part in parts)


def _as_it_is(part: Part) -> Part:
    return part


def distinct(parts: Sequence[Part], renamed: Callable[[Part], Part] = _as_it_is) -> tuple[Part, ...]:
    """Keep each member once in the whole tree: at the place nearest to the top, there the first.

    `renamed` is called with each of them.
    """
    found: list[tuple[int, Part]] = []
    seen: set[str] = set()
    level = [(_TOP, part) for part in parts]
    while level:
        # By level, so that places nearer to the top come first. No recursion, because depth has no limit.
        first = len(found)
        for holder, part in level:
            if part.key not in seen:
                seen.add(part.key)
                found.append((holder, renamed(part)))
        level = [(index, inner) for index in range(first, len(found)) for inner in found[index][1].parts]
    held: dict[int, list[Part]] = {}
    for index in range(len(found) - 1, -1, -1):
        holder, part = found[index]
        whole = replace(part, parts=tuple(reversed(held.get(index, ())))) if part.parts else part
        held.setdefault(holder, []).append(whole)
    return tuple(reversed(held.get(_TOP, ())))


# --- the text --------------------------------------------------------------------------------------------------------


EMPTY: Final = "(empty group: Add(...) adds members)"


def summarize(
    parts: Sequence[Part],
    budget: int,
    lod: int,
    count: Callable[[str], int],
    *,
    sparing: bool = False,
    renamed: Callable[[Part], Part] = _as_it_is,
    rules: Rules = RULES,
) -> RenderedView:
    """Write the summary, at most `budget` tokens.

    Empty if not even "..." fits.

    Args:
        parts: the members, in order; one that occurs twice counts once.
        budget: in tokens, at least 1.
        lod: the finest level for a member.
        count: exact tokens.
        sparing: whether nobody chose the budget (see `Scene`).
        renamed: returns a part with its present name and title.
        rules: what decides the shares of members.
    """
    if not parts:
        return _first((EMPTY, "(empty)", DOTS), budget, count)
    sheet = laid_out(distinct(parts, renamed), budget, lod, sparing, count, rules)
    if not sheet.listed:
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
    for entry in [None, *reversed(sheet.by_salience)]:
        if entry is not None:
            entry.is_bare = True
        text, is_whole = _text(sheet)
        tokens = count(text)
        if tokens <= budget:
            return RenderedView(text=text, tokens=tokens, whole=is_whole)
    return _first((DOTS,), budget, count, whole=False)


def _text(sheet: Sheet) -> tuple[str, bool]:
    """Return the text, and whether it is complete."""
    texts: list[str] = []
    is_whole = True
    waiting: list[Entry | str] = _reversed(sheet)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            texts.append(entry)
            continue
        texts.append(entry.line)
        if entry.is_bare or (entry.inner is None and entry.rung < 0):
            is_whole = is_whole and not entry.is_bare and not entry.part.need
        elif entry.inner is None:
            rendered = entry.ladder.show(entry.rung)
            texts.append(rendered.text)
            is_whole = is_whole and rendered.whole
        else:
            is_whole = is_whole and entry.inner.listed == len(entry.inner.entries)
            if entry.inner.roll is not None:
                is_whole = is_whole and all(each.rung >= 0 or not each.part.need for each in entry.inner.entries)
            waiting += _reversed(entry.inner)
    return "".join(texts), is_whole and sheet.listed == len(sheet.entries)


def _reversed(sheet: Sheet) -> list[Entry | str]:
    """Return the contents of a group, last first: its rows of names, members and note."""
    listed = [entry for entry in sheet.entries if entry.is_listed]
    rows, shown = "", listed
    if sheet.roll is not None:
        rows = rows_of(entry.part.title for entry in listed if entry.rung < 0)
        shown = [entry for entry in listed if entry.rung >= 0]
    note = _note(len(sheet.entries) - sheet.listed, len(sheet.entries)) if sheet.listed else ""
    return [note, *reversed(shown), rows]


# --- dividing a budget -----------------------------------------------------------------------------------------------


_SIZE_UNIT: Final = 64


def weights(
    saliences: Sequence[Salience], needs: Sequence[int], rules: Rules = RULES, names: Sequence[str] = ()
) -> list[float]:
    """Return the weight of each part, above 0.

    Of two equal ones, the larger weighs a little more.

    Statements count by rank: the last that used a part, the one before it, and so on. `names` are only needed if
    their rule is worth something.
    """
    touched, edited = _ranks(each.touched for each in saliences), _ranks(each.edited for each in saliences)
    order = {name: index for index, name in enumerate(sorted(set(names)))} if rules["name"] else {}
    found: list[float] = []
    for index, (each, need) in enumerate(zip(saliences, needs, strict=True)):
        weight = 1 + rules["pinned"] * each.pinned + rules["changed"] * each.changed
        weight += rules["touched"] / (1 + touched[each.touched])
        weight += rules["edited"] / (1 + edited[each.edited]) if each.edited else 0.0
        weight += rules["name"] * (1 - order[names[index]] / len(order)) if order else 0.0
        found.append(weight * (1 + rules["size"] * log2(1 + max(need, 0) / _SIZE_UNIT) / 8))
    return found


def _ranks(numbers: Iterable[int]) -> dict[int, int]:
    return {number: rank for rank, number in enumerate(sorted(set(numbers), reverse=True))}


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
    """Divide `room` among `parts` in proportion, in whole tokens, into `shares`; each part needs more than it gets."""
    total = sum(weights[index] for index in parts)
    for index in parts:
        shares[index] = min(int(room * weights[index] / total), needs[index])
    left = room - sum(shares[index] for index in parts)
    for index in sorted(parts, key=lambda index: (-weights[index], index)):
        extra = min(left, 1, needs[index] - shares[index])
        shares[index] += extra
        left -= extra


# --- the layout ------------------------------------------------------------------------------------------------------


_FIRST: Final = 64
"""Tokens of a member up to which its texts are made at first, or twice its share, if that is more."""
_NEVER: Final = float("inf")


class Roll:
    """The tokens of a row for each directory, with the names of files that have no text of their own.

    A space before a visible character begins a token, so the tokens of names add up.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._numbers: dict[str, int] = {}

    def cost(self, path: str) -> int:
        """Return the tokens that a name adds."""
        directory, _, name = path.rpartition("/")
        row = 0 if self._numbers.get(directory) else self._count(f"{directory or _ROOT}/") + 1
        return self._count(f" {name}") + row

    def add(self, path: str) -> None:
        """Note a name."""
        directory = path.rpartition("/")[0]
        self._numbers[directory] = self._numbers.get(directory, 0) + 1

    def drop(self, path: str) -> int:
        """Take out a name, because the file has a title now; return the tokens that it took."""
        self._numbers[path.rpartition("/")[0]] -= 1
        return self.cost(path)


def rows_of(paths: Iterable[str]) -> str:
    """Write paths in a row for each directory."""
    rows: dict[str, list[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        rows.setdefault(directory or _ROOT, []).append(name)
    return "".join(f"{directory}/ {' '.join(names)}\n" for directory, names in rows.items())


_ROOT: Final = "."


@dataclass(slots=True, eq=False)
class Entry:
    """A member in the layout.

    `line` is its line, with a cost in tokens, if it `is_listed`. Below the line is text `rung` of its `ladder`, made
    for `limit` tokens; none if it is -1. `inner` is a group's layout. `weight` is the logarithm of its share of the
    budget, and `start` that of the moment at which texts of its group begin. `is_bare`: the text below is dropped.
    """

    part: Part
    line: str
    cost: int
    holder: Sheet
    inner: Sheet | None = None
    is_listed: bool = False
    is_bare: bool = False
    ladder: Ladder = EMPTY_LADDER
    limit: int = 0
    rung: int = -1
    weight: float = 0.0
    start: float = -_NEVER

    def moment(self, tokens: int) -> float:
        """Return the logarithm of the moment at which the member has this many tokens."""
        return _sum(self.start, log(max(tokens, 1)) - self.weight)

    @property
    def is_cut(self) -> bool:
        """Whether it could have more texts than were made."""
        return self.part.ladder is not None and self.limit < self.part.need and (not self.limit or self.ladder.more)


@dataclass(slots=True, eq=False)
class Sheet:
    """A group in the layout: its members in their order and by salience.

    `lod` is the finest level for them. `limit` are the most tokens below the group's line, and `used` those in use.
    `listed` counts the listed members. `roll` is for the names of files without a text. `owner` is the group's own
    entry in the group around it. `start` and `weight` are as in `Entry`. `limits` are the groups from this one outwards
    whose limits can matter: each less than all that follow. `full_at` is the moment of the first unit that exceeds the
    limit.
    """

    entries: Sequence[Entry]
    by_salience: Sequence[Entry]
    lod: int
    limit: int
    owner: Entry | None = None
    roll: Roll | None = None
    start: float = -_NEVER
    weight: float = 0.0
    limits: tuple[Sheet, ...] = ()
    used: int = 0
    listed: int = 0
    full_at: float = _NEVER


class _Unit(NamedTuple):
    """A member's line, or a text in place of the one before; `moment` orders them."""

    moment: float
    number: int
    entry: Entry
    rung: int


def laid_out(
    parts: Sequence[Part], budget: int, lod: int, sparing: bool, count: Callable[[str], int], rules: Rules = RULES
) -> Sheet:
    """Lay out the parts, each once in the tree, within `budget` tokens.

    The units are the members' lines and the steps of their texts. Their order does not depend on the budget: lines of
    a group's members come first, salient ones first; then each member gets tokens in proportion to its salience, so
    the unit is next whose member has, with it, the fewest tokens for its weight. A group's weight is divided among its
    members. The layout is the longest beginning of this order that fits.

    Texts are made only as far as the order is read. A member's texts are known up to a limit, so the order is known up
    to the moment at which the first member reaches its limit. If the budget reaches further, limits are doubled.
    """
    root = _sheets(parts, budget, lod, count, rules)
    entries = list(_entries(root))
    shares = {id(entry): share for entry, share in zip(entries, _shares(entries, budget), strict=True)}
    while True:
        end = _fill(root, entries, budget, count)
        behind = [entry for entry in entries if entry.is_cut and entry.limit < budget and _is_open(entry, end)]
        if not behind:
            return root
        for entry in behind:
            assert entry.part.ladder is not None
            first = max(_FIRST, 2 * shares[id(entry)])
            entry.limit = min(max(2 * entry.limit, first), budget)
            level = max(entry.holder.lod, entry.part.lod)
            entry.ladder = entry.part.ladder(level, entry.limit, sparing)


def _shares(entries: Sequence[Entry], budget: int) -> list[int]:
    """Estimate the tokens of each member."""
    needs = [entry.part.need if entry.inner is None else 0 for entry in entries]
    heaviest = max((entry.weight for entry in entries), default=0.0)
    return divide(budget, needs, [max(exp(entry.weight - heaviest), _LIGHTEST) for entry in entries])


_LIGHTEST: Final = 1e-9


def _is_open(entry: Entry, end: float) -> bool:
    """Return whether the member's unknown texts could come before the end, and before groups around it are full."""
    return entry.moment(entry.limit + 1) <= min((end, *(each.full_at for each in entry.holder.limits)))


def _is_full(sheet: Sheet) -> bool:
    return any(each.full_at < _NEVER for each in sheet.limits)


def _sheets(parts: Sequence[Part], budget: int, lod: int, count: Callable[[str], int], rules: Rules) -> Sheet:
    """Make the layout without any unit, with weights and moments."""
    root = Sheet((), (), lod, budget)
    waiting: list[tuple[Sheet, Sequence[Part]]] = [(root, parts)]
    while waiting:
        sheet, inner = waiting.pop()
        names = [part.name or part.title for part in inner]
        heavy = weights([part.salience for part in inner], [part.need for part in inner], rules, names)
        entries = [Entry(part, line := _line(part), count(line), sheet) for part in inner]
        order = sorted(range(len(entries)), key=lambda index: (-heavy[index], index))
        sheet.entries, sheet.by_salience = entries, [entries[index] for index in order]
        begins = _sum(sheet.start, log(max(sum(entry.cost for entry in entries), 1)) - sheet.weight)
        total = log(sum(heavy)) if heavy else 0.0
        for entry, own in zip(entries, heavy, strict=True):
            entry.weight, entry.start = sheet.weight + log(own) - total, begins
            part = entry.part
            if part.ladder is None:
                roll = Roll(count) if part.rolled else None
                made = Sheet((), (), max(sheet.lod, part.lod), part.need, entry, roll, begins, entry.weight)
                outer = sheet.limits
                narrower = part.need < (outer[0].limit if outer else budget)
                made.limits = (made, *outer) if narrower else outer
                entry.inner = made
                waiting.append((made, part.parts))
    return root


def _entries(root: Sheet) -> Iterator[Entry]:
    """Yield all members, each after the one around it."""
    waiting = [root]
    while waiting:
        sheet = waiting.pop()
        yield from sheet.entries
        waiting += [entry.inner for entry in sheet.entries if entry.inner is not None]


def _units(root: Sheet, entries: Sequence[Entry]) -> list[_Unit]:
    """Return the known units in order."""
    units: list[_Unit] = []
    for sheet in (root, *(entry.inner for entry in entries if entry.inner is not None)):
        used, latest = 0, sheet.start
        for entry in sheet.by_salience:
            used += entry.cost
            latest = max(latest, _sum(sheet.start, log(used) - sheet.weight))
            units.append(_Unit(latest, len(units), entry, -1))
    for entry in entries:
        latest = entry.start
        for rung, tokens in enumerate(entry.ladder.tokens):
            latest = max(latest, entry.moment(tokens))
            units.append(_Unit(latest, len(units), entry, rung))
    units.sort(key=lambda unit: unit[:2])
    return units


def _sum(one: float, other: float) -> float:
    """Return the logarithm of the sum of two numbers, given their logarithms."""
    high, low = max(one, other), min(one, other)
    return high if low == -_NEVER else high + log1p(exp(low - high))


# --- filling ---------------------------------------------------------------------------------------------------------


def _fill(root: Sheet, entries: Sequence[Entry], budget: int, count: Callable[[str], int]) -> float:
    """Take the longest beginning of the units that fits; return the moment of the first one beyond."""
    units = _units(root, entries)
    taken = _Taken(root, count)
    taken.clear(entries)
    fitting = 0
    end = _NEVER
    for number, unit in enumerate(units, 1):
        taken.take(unit)
        if taken.least > budget:
            end = unit.moment
            break
        if taken.tokens <= budget:
            fitting = number
    taken.clear(entries)
    for unit in units[:fitting]:
        taken.take(unit)
    return end


class _Taken:
    """The layout while units are taken, with its tokens."""

    def __init__(self, root: Sheet, count: Callable[[str], int]) -> None:
        self._root = root
        self._count = count
        self.least = 0
        self._notes = 0

    @property
    def tokens(self) -> int:
        """The tokens with the lines that count unlisted members; `least` are those without."""
        return self.least + self._notes

    def clear(self, entries: Sequence[Entry]) -> None:
        """Take no unit."""
        for sheet in (self._root, *(entry.inner for entry in entries)):
            if sheet is not None:
                sheet.used, sheet.listed, sheet.full_at = 0, 0, _NEVER
                sheet.roll = None if sheet.roll is None else Roll(self._count)
        for entry in entries:
            entry.is_listed, entry.rung = False, -1
        self.least = self._notes = 0

    def take(self, unit: _Unit) -> None:
        """Take a unit, unless a group around it is full: then no later unit in that group is taken."""
        entry, sheet = unit.entry, unit.entry.holder
        is_line = unit.rung < 0
        if (sheet.owner is not None and not sheet.owner.is_listed) or not (is_line or entry.is_listed):
            return
        if _is_full(sheet):
            return
        added, note = self._added(unit), self._note(sheet, 1) if is_line else 0
        for each in sheet.limits:
            if each.used + added + note > each.limit:
                each.full_at = unit.moment
                self._put_back(unit)
                return
        for each in sheet.limits:
            each.used += added + note
        self.least += added
        self._notes += note
        entry.rung = unit.rung
        if is_line:
            entry.is_listed = True
            sheet.listed += 1

    def _added(self, unit: _Unit) -> int:
        """Return the tokens that a unit adds, without the note; rows of names change."""
        entry, roll = unit.entry, unit.entry.holder.roll
        if unit.rung < 0:
            if roll is None:
                return entry.cost
            cost = roll.cost(entry.part.title)
            roll.add(entry.part.title)
            return cost
        if entry.rung >= 0:
            return entry.ladder.tokens[unit.rung] - entry.ladder.tokens[entry.rung]
        row = 0 if roll is None else entry.cost - roll.drop(entry.part.title)
        return entry.ladder.tokens[unit.rung] + row

    def _put_back(self, unit: _Unit) -> None:
        """Restore the rows of names after a unit that did not fit."""
        roll = unit.entry.holder.roll
        if roll is not None and unit.rung >= 0 and unit.entry.rung < 0:
            roll.add(unit.entry.part.title)

    def _note(self, sheet: Sheet, more: int) -> int:
        """Return the tokens that the note takes more after so many more members are listed."""
        number, listed = len(sheet.entries), sheet.listed
        before = _note(number - listed, number) if listed else ""
        after = _note(number - listed - more, number)
        return (self._count(after) if after else 0) - (self._count(before) if before else 0)


def _note(missing: int, number: int) -> str:
    """Write the line that counts the unlisted members of `number`.

    Returns "" for none.
    """
    if not missing:
        return ""
    return f"{DOTS} {members(missing)} more\n" if missing < number else f"{DOTS} {members(missing)}\n"


def _line(part: Part) -> str:
    title = part.title if part.name in ("", part.title) else f"{part.name}: {part.title}"
    return f"# {title}\n"


def members(number: int) -> str:
    """Write a number of members."""
    return f"{number:,} {'member' if number == 1 else 'members'}"
