"""The sections of the tail: changes, handles, groups, pins, and blocks that are kept whole.

Each function writes one section within a budget: its text, its exact tokens, and the handles that they are about. It
must not know what other sections take; `sections` divides the budget. The timeline section is in `timeline`.

A section begins with a visible character that is no slash and ends with a newline, so the tokens of the sections add
up to those of the tail (see `core.tokens.pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from ...core.text import DOTS, more, plural
from ...files.tails import FeedItem, HandleRow, News

Count = Callable[[str], int]
"""Exact tokens of a text."""
NEW: Final = "Changed since your last statement:\n"
EARLIER: Final = "Changed earlier, and not shown since:\n"
EARLIER_ALONE: Final = "Changed, and not shown since:\n"
"""The heading if nothing is new."""
HISTORY_TOKENS: Final = 400
"""Budget of the changes that the model has already read."""
NAMESPACE: Final = "namespace"
"""Replaces the handle's name for changes that are not about a handle."""
HANDLES: Final = "Handles (name: type, document, mode, lod, tokens used/budget):\n"
GROUPS: Final = "Groups, as they are now:\n"
PINS: Final = "Pinned:\n"
PLAN: Final = "Your plan, as the user sees it:\n"
IN_RESULTS: Final = "Shown in results: "
"""Begins the line of groups that results show."""
_SMALLEST: Final = 24
"""Tokens below which a surface is not worth its line."""
_NAMED: Final = 12
"""Number of names in a line about omitted entries."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section. `nodes` are the tokens about each handle, by its id."""

    text: str = ""
    tokens: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict[str, int])


EMPTY: Final = Part()


# --- changes ---------------------------------------------------------------------------------------------------------


def feed(news: News, names: Mapping[str, str], followed: Collection[str], budget: int, count: Count) -> Part:
    """Write the new changes, then earlier ones of the handles whose ids are in `followed`.

    A new item is shown in full if it fits, else by its first line, the newest first; the others are counted. Earlier
    changes have a small budget, because the model can no longer look them up but has read them.
    """
    new = _new(news, names, budget, count)
    earlier = [item for item in news.earlier if item.obj_id in followed]
    heading = EARLIER if new.text else EARLIER_ALONE
    old = _earlier(heading, earlier, names, min(HISTORY_TOKENS, budget - new.tokens), count)
    nodes = {key: new.nodes.get(key, 0) + old.nodes.get(key, 0) for key in (*new.nodes, *old.nodes)}
    return Part(new.text + old.text, new.tokens + old.tokens, nodes)


def _new(news: News, names: Mapping[str, str], budget: int, count: Count) -> Part:
    items, dropped = news.items, news.left_out
    if not items and not dropped:
        return EMPTY
    entries = [_entry(item, names) for item in items]
    costs = [count(entry) for entry in entries]
    head = NEW + _omitted_changes(dropped)
    if count(head) + sum(costs) <= budget:
        return _feed_part(head, items, entries, costs, count)
    room = budget - count(NEW) - count(_omitted_changes(len(items) + dropped))
    kept = _newest(items, names, room, count)
    first = len(items) - len(kept)
    head = (NEW if kept else "") + _omitted_changes(dropped + first)
    part = _feed_part(head, items[first:], kept, [count(entry) for entry in kept], count)
    return part if part.tokens <= budget else EMPTY


def _earlier(heading: str, items: Sequence[FeedItem], names: Mapping[str, str], budget: int, count: Count) -> Part:
    kept = _newest(items, names, budget - count(heading), count) if items else []
    if not kept:
        return EMPTY
    return _feed_part(heading, items[len(items) - len(kept) :], kept, [count(entry) for entry in kept], count)


def _feed_part(
    head: str, items: Sequence[FeedItem], entries: Sequence[str], costs: Sequence[int], count: Count
) -> Part:
    nodes: dict[str, int] = {}
    for item, cost in zip(items, costs, strict=True):
        if item.obj_id:
            nodes[item.obj_id] = nodes.get(item.obj_id, 0) + cost
    return Part("".join((head, *entries)), count(head) + sum(costs), nodes)


def _newest(items: Sequence[FeedItem], names: Mapping[str, str], room: int, count: Count) -> list[str]:
    """Return the newest items that fit, oldest first, each in full or by its first line."""
    kept: list[str] = []
    for item in reversed(items):
        whole = _entry(item, names)
        first = whole.partition("\n")[0] + "\n"
        entry = next((entry for entry in (whole, first) if count(entry) <= room), None)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return kept[::-1]


def _entry(item: FeedItem, names: Mapping[str, str]) -> str:
    return f"{names.get(item.obj_id, item.obj_id or NAMESPACE)}: {item.text}\n"


def _omitted_changes(changes: int) -> str:
    return f"{DOTS} {changes} {plural(changes, 'change')} omitted for lack of room\n" if changes else ""


# --- handles ---------------------------------------------------------------------------------------------------------


def line(row: HandleRow) -> str:
    """Write one row of the handle table, with a newline.

    A budget of 0 means All. `ls()` shows the same lines.
    """
    mode = f"{row.mode} {row.freq}".strip()
    allowed = row.tokens or "All"
    changed = ", changed" if row.changed else ""
    return f"{row.name}: {row.obj_type} {row.title}, {mode}, lod {row.lod}, {row.used_tokens}/{allowed}{changed}\n"


class Table:
    """The handle table: a line for each handle, in the order of creation.

    Each line is counted once, because the table is written within several budgets.
    """

    __slots__ = ("_costs", "_count", "_lines", "_rows")

    def __init__(self, rows: Sequence[HandleRow], count: Count) -> None:
        self._rows = rows
        self._count = count
        self._lines = [line(row) for row in rows]
        self._costs = [count(text) for text in self._lines]

    def within(self, budget: int) -> Part:
        """Write the table within `budget` tokens.

        Empty for no rows, or if nothing fits.

        Changed handles are kept first, then running ones, then the newest. The last line counts the others.
        """
        rows, count = self._rows, self._count
        if not rows:
            return EMPTY
        heading = count(HANDLES)
        if heading + sum(self._costs) <= budget:
            return self._part(range(len(rows)), "")
        kept = _most_important(rows, self._costs, budget - heading - count(_omitted_rows(len(rows))))
        note = _omitted_rows(len(rows) - len(kept))
        if not kept:
            return Part(note, count(note)) if count(note) <= budget else EMPTY
        return self._part(kept, note)

    def _part(self, kept: Sequence[int], note: str) -> Part:
        nodes = {self._rows[index].obj_id: self._costs[index] for index in kept}
        text = "".join((HANDLES, *(self._lines[index] for index in kept), note))
        tokens = self._count(HANDLES) + sum(self._costs[index] for index in kept) + self._count(note)
        return Part(text, tokens, nodes)


def _omitted_rows(rows: int) -> str:
    return more(rows, "handle") + "\n"


def _most_important(rows: Sequence[HandleRow], costs: Sequence[int], room: int) -> list[int]:
    """Return the indices of the most important rows that fit, in the order of creation."""
    order = sorted(range(len(rows)), key=lambda index: (rows[index].changed, rows[index].mode == "running", index))
    kept: list[int] = []
    for index in reversed(order):
        if costs[index] > room:
            break
        room -= costs[index]
        kept.append(index)
    return sorted(kept)


# --- groups and pins -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A group, or a pinned handle.

    `heading` is a line without its colon and newline. `shown_in` is the index of the statement whose result shows the
    surface in its current state, 0 for none. `render` returns its text within a number of tokens; `text` is its text
    within its own budget.
    """

    obj_id: str
    name: str
    heading: str
    text: str
    render: Callable[[int], str]
    shown_in: int = 0


def groups(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """Write the summaries of groups, important ones first, then which groups results already show."""
    fresh = [each for each in surfaces if not each.shown_in]
    in_results = _shown_in_results([each for each in surfaces if each.shown_in])
    part = _surfaces(GROUPS, fresh, budget - (count(in_results) if in_results else 0), count, bare=False)
    if not in_results:
        return part
    if not part.text and budget < count(in_results):
        return EMPTY
    return Part(part.text + in_results, part.tokens + count(in_results), part.nodes)


def pins(surfaces: Sequence[Surface], budget: int, count: Count) -> Part:
    """Write the pinned handles with their reasons, and their content if no result shows it."""
    return _surfaces(PINS, surfaces, budget, count, bare=True)


def _shown_in_results(surfaces: Sequence[Surface]) -> str:
    if not surfaces:
        return ""
    named = ", ".join(f"{each.name} (statement {each.shown_in})" for each in surfaces[:_NAMED])
    rest = f" and {len(surfaces) - _NAMED} more" if len(surfaces) > _NAMED else ""
    return f"{IN_RESULTS}{named}{rest}\n"


def _surfaces(heading: str, wanted: Sequence[Surface], budget: int, count: Count, *, bare: bool) -> Part:
    """Write all surfaces if they fit, else shorten each to what the ones before it leave.

    Args:
        bare: whether the heading of a surface is useful without its text.
    """
    if not wanted:
        return EMPTY
    whole = [(each, _surface_text(each, each.text)) for each in wanted]
    if count(heading) + sum(count(text) for _, text in whole) <= budget:
        return _surfaces_part(heading, whole, "", count)
    room = budget - count(heading) - count(_omitted_surfaces(wanted))
    kept: list[tuple[Surface, str]] = []
    left: list[Surface] = []
    for place, (each, text) in enumerate(whole):
        # A surface takes at most half of the rest, so that less important ones are shown and not only named.
        share = room if place == len(whole) - 1 else max(room // 2, _SMALLEST)
        block = text if count(text) <= share else _shortened(each, share, count, bare=bare)
        if block and count(block) <= room:
            room -= count(block)
            kept.append((each, block))
        else:
            left.append(each)
    part = _surfaces_part(heading, kept, _omitted_surfaces(left), count) if kept else EMPTY
    return part if part.tokens <= budget else EMPTY


def _shortened(surface: Surface, room: int, count: Count, *, bare: bool) -> str:
    inner = room - count(f"{surface.heading}:\n")
    text = surface.render(inner) if inner >= _SMALLEST and not surface.shown_in else ""
    if text:
        return _surface_text(surface, text)
    return _surface_text(surface, "") if bare and inner >= 0 else ""


def _surface_text(surface: Surface, text: str) -> str:
    if surface.shown_in:
        return f"{surface.heading}, {as_shown_by(surface.shown_in)}\n"
    return f"{surface.heading}:\n{text}" if text else f"{surface.heading}\n"


def as_shown_by(statement: int) -> str:
    """Write the clause that replaces a render that stands in a result."""
    return f"shown in the result of statement {statement}"


def _surfaces_part(heading: str, kept: Sequence[tuple[Surface, str]], note: str, count: Count) -> Part:
    return _joined(heading, [(each.obj_id, text, count(text)) for each, text in kept], note, count)


def _omitted_surfaces(left: Sequence[Surface]) -> str:
    if not left:
        return ""
    names = ", ".join(each.name for each in left[:_NAMED])
    rest = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"{DOTS} omitted for lack of room: {names}{rest}\n"


# --- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """A text about a handle that is shown whole or not at all.

    It ends with a newline.
    """

    obj_id: str
    name: str
    text: str


def plan(lines: Sequence[str], budget: int, count: Count) -> Part:
    """Write the first lines of the plan that fit, and the number of others."""
    costs = [count(f"{line}\n") for line in lines]
    room = budget - count(PLAN)
    shown = list(lines)
    if sum(costs) > room:
        room -= count(f"{more(len(lines), 'step')}\n")
        fits = sum(1 for total in accumulate(costs) if total <= room)
        shown = [*lines[:fits], more(len(lines) - fits, "step")] if fits else []
    text = PLAN + "".join(f"{line}\n" for line in shown) if shown else ""
    tokens = count(text)
    return Part(text, tokens) if 0 < tokens <= budget else EMPTY


def blocks(
    heading: str, wanted: Sequence[Block], budget: int, count: Count, *, older: int = 0, advice: str = ""
) -> Part:
    """Write the first blocks that fit below `heading`.

    A last line names or counts the others.

    Args:
        older: number of further blocks, which the last line only counts.
        advice: end of the last line, which says how to see the others.
    """
    if not wanted and not older:
        return EMPTY
    costs = [count(block.text) for block in wanted]
    if not older and count(heading) + sum(costs) <= budget:
        return _blocks_part(heading, zip(wanted, costs, strict=True), "", count)
    for named in (_NAMED, 0):  # because a line of long names may not fit where a mere count does
        room = budget - count(heading) - count(_omitted_blocks(wanted, older, advice, named))
        kept: list[tuple[Block, int]] = []
        left: list[Block] = []
        for block, cost in zip(wanted, costs, strict=True):
            if cost <= room:
                room -= cost
                kept.append((block, cost))
            else:
                left.append(block)
        part = _blocks_part(heading, kept, _omitted_blocks(left, older, advice, named), count)
        if part.tokens <= budget:
            return part
    return EMPTY


def _blocks_part(heading: str, kept: Iterable[tuple[Block, int]], note: str, count: Count) -> Part:
    return _joined(heading, [(block.obj_id, block.text, cost) for block, cost in kept], note, count)


def _omitted_blocks(left: Sequence[Block], older: int, advice: str, named: int) -> str:
    number = len(left) + older
    if not number:
        return ""
    names = ", ".join(dict.fromkeys(block.name for block in left[:named]))
    which = names and f"{': ' if number == len(left[:named]) else ', among them '}{names}"
    return f"{DOTS} {number} omitted for lack of room{which}{advice}\n"


def _joined(heading: str, entries: Sequence[tuple[str, str, int]], note: str, count: Count) -> Part:
    """Join entries, each a handle's id, a text and its tokens."""
    nodes: dict[str, int] = {}
    for obj_id, _, cost in entries:
        nodes[obj_id] = nodes.get(obj_id, 0) + cost
    text = "".join((heading, *(text for _, text, _ in entries), note))
    tokens = count(heading) + sum(cost for *_, cost in entries) + (count(note) if note else 0)
    return Part(text, tokens, nodes)
