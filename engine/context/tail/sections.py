"""The feed section: what is new to the model, and what it read before of handles that it still follows.

New items come in full where they fit, else by their first line, the newest first; those without room are counted. The
history is for what the model cannot look up any more: the newest changes, within a small budget of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...core.text import DOTS
from ...files.tails import FeedItem, HandleRow, News
from . import section_parts, timeline
from .section_parts import EMPTY, Block, Count, Part, Surface, blocks
from .timeline import Policy

HEADING: Final = "Changed since your last statement:\n"
EARLIER: Final = "Changed before that, since you were shown them:\n"
EARLIER_ALONE: Final = "Changed since you were shown them:\n"
"""Where nothing is new."""
NAMESPACE: Final = "namespace"
"""What stands in the place of a name, for what is about no handle."""
HISTORY_TOKENS: Final = 400


def feed(news: News, names: Mapping[str, str], followed: Collection[str], budget: int, count: Count) -> Part:
    """What is new, and below it what was before, of handles whose ids are `followed`; within `budget` tokens."""
    new = _new(news, names, budget, count)
    wanted = _once([item for item in news.earlier if item.obj_id in followed])
    heading = EARLIER if new.text else EARLIER_ALONE
    before = _before(heading, wanted, names, min(HISTORY_TOKENS, budget - new.tokens), count)
    nodes = {key: new.nodes.get(key, 0) + before.nodes.get(key, 0) for key in (*new.nodes, *before.nodes)}
    return Part(new.text + before.text, new.tokens + before.tokens, nodes)


def _once(items: Sequence[FeedItem]) -> list[FeedItem]:
    """Without what a later one says in the same words: `1 of 2 members changed: g` every time is nothing new."""
    return list(dict.fromkeys(reversed(items)))[::-1]


def _new(news: News, names: Mapping[str, str], budget: int, count: Count) -> Part:
    items, dropped = news.items, news.left_out
    if not items and not dropped:
        return EMPTY
    entries = [_whole(item, names) for item in items]
    costs = [count(entry) for entry in entries]
    head = HEADING + _left_out(dropped)
    if count(head) + sum(costs) <= budget:
        return _part(head, items, entries, costs, count)
    note = len(items) + dropped
    room = budget - count(HEADING) - count(_left_out(note))
    kept = _newest(items, names, room, count)
    first = len(items) - len(kept)
    head = (HEADING if kept else "") + _left_out(dropped + first)
    part = _part(head, items[first:], kept, [count(entry) for entry in kept], count)
    return part if part.tokens <= budget else EMPTY


def _before(heading: str, items: Sequence[FeedItem], names: Mapping[str, str], budget: int, count: Count) -> Part:
    if not items:
        return EMPTY
    kept = _newest(items, names, budget - count(heading), count)
    if not kept:
        return EMPTY
    return _part(heading, items[len(items) - len(kept) :], kept, [count(entry) for entry in kept], count)


def _part(head: str, items: Sequence[FeedItem], entries: Sequence[str], costs: Sequence[int], count: Count) -> Part:
    nodes: dict[str, int] = {}
    for item, cost in zip(items, costs, strict=True):
        if item.obj_id:
            nodes[item.obj_id] = nodes.get(item.obj_id, 0) + cost
    return Part("".join((head, *entries)), count(head) + sum(costs), nodes)


def _newest(items: Sequence[FeedItem], names: Mapping[str, str], room: int, count: Count) -> list[str]:
    """The newest items that fit, in their order, each in full or else by its first line."""
    kept: list[str] = []
    for item in reversed(items):
        whole = _whole(item, names)
        first = whole.partition("\n")[0] + "\n"
        entry = next((entry for entry in (whole, first) if count(entry) <= room), None)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return kept[::-1]


def _whole(item: FeedItem, names: Mapping[str, str]) -> str:
    return f"{names.get(item.obj_id, item.obj_id or NAMESPACE)}: {item.text}\n"


def _left_out(changes: int) -> str:
    return f"{DOTS} {changes} {'change' if changes == 1 else 'changes'} not shown for want of room\n" if changes else ""


# sections:
# The tail: its sections as data, and how they share one exact budget.
#
# A section prepares what it has from the state of all (`TailState`), and is then a pure function from a budget to a
# `Part`, which may be asked several times. A row of SECTIONS says where it stands in the tail, below which budget it
# is left out, and what share of the whole it may count on. Where all that the sections want fits, they get it. Else
# they are served by rank: each gets what it wants as far as that leaves the later ones what these may count on, and
# what one does not use the next may. Rank 0 is the handle table, because with the names of its handles a model can
# ask for anything else; at the smallest budgets it is alone. What is left at the end goes to those that were cut, by
# rank again.
#
# No render passes the budget that it is given, and what is given never adds up to more than the whole, so the tail
# never passes its budget whatever the state is. Called by the Board.


@dataclass(frozen=True, slots=True, kw_only=True)
class TailState:
    """All that a tail tells.

    `groups`, `expansions` and `pins` are in the order of their importance: the first are kept where not all fit.
    `policies` are those of the handles that the past statements of `news` made, as far as they live, by their ids.
    """

    rows: tuple[HandleRow, ...] = ()
    news: News = field(default_factory=News)
    groups: tuple[Surface, ...] = ()
    expansions: tuple[Block, ...] = ()
    pins: tuple[Surface, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def names(self) -> Mapping[str, str]:
        """Of each handle, by its id."""
        return {row.obj_id: row.name for row in self.rows}


Fit = Callable[[int], Part]
"""A section's part within a budget; never over it."""


@dataclass(frozen=True, slots=True)
class Section:
    """`floor` are tokens below which it is left out, `share` is what it may count on of a budget that is too small."""

    name: str
    rank: int
    floor: int
    share: float
    prepare: Callable[[TailState, Count], Fit]


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail's text, its exact tokens, and of these what each section and each handle takes."""

    text: str
    tokens: int
    sections: Mapping[str, int]
    nodes: Mapping[str, int]


_EXPANSIONS: Final = "Shown from outside your statements:\n"
_HOW_TO_SHOW: Final = "; show(NAME) shows a handle"


def _feed(state: TailState, count: Count) -> Fit:
    news = state.news
    if not news.items and not news.left_out and not news.earlier:
        return _nothing
    followed = {row.obj_id for row in state.rows if row.mode == "running"}
    return partial(feed, news, state.names, followed, count=count)


def _timeline(state: TailState, count: Count) -> Fit:
    news = state.news
    return timeline.past(news.statements, news.statements_left_out, state.policies, count)


def _handles(state: TailState, count: Count) -> Fit:
    return section_parts.Table(state.rows, count).within


def _groups(state: TailState, count: Count) -> Fit:
    return partial(section_parts.groups, state.groups, count=count)


def _expansions(state: TailState, count: Count) -> Fit:
    left_out = state.news.expansions_left_out
    return partial(blocks, _EXPANSIONS, state.expansions, count=count, older=left_out, advice=_HOW_TO_SHOW)


def expansions(news: News, rows: Sequence[HandleRow]) -> tuple[Block, ...]:
    """What statements from outside have shown, the newest first, by the names that the handles have."""
    names = {row.obj_id: row.name for row in rows}
    named = [(item, names.get(item.obj_id, item.obj_id)) for item in reversed(news.expansions)]
    return tuple(Block(item.obj_id, name, f"{name}: {item.text}\n") for item, name in named)


def _pins(state: TailState, count: Count) -> Fit:
    return partial(section_parts.pins, state.pins, count=count)


def _nothing(_: int) -> Part:
    return EMPTY


SECTIONS: Final = (
    Section("timeline", 5, 64, 1 / 8, _timeline),
    Section("feed", 1, 24, 1 / 3, _feed),
    Section("handles", 0, 0, 1 / 4, _handles),
    Section("groups", 3, 64, 1 / 4, _groups),
    Section("expansions", 4, 64, 1 / 6, _expansions),
    Section("pins", 2, 24, 1 / 12, _pins),
)
"""In the order in which they stand in the tail."""
_SMALL: Final = 96
"""Below this budget there is the section of rank 0 alone, and what it leaves."""


def assemble(state: TailState, budget: int, count: Count) -> Tail:
    """The tail within `budget` tokens; empty where there is nothing to say."""
    fits = {section: section.prepare(state, count) for section in SECTIONS}
    wanted = {section: fit(budget) for section, fit in fits.items()}
    if sum(part.tokens for part in wanted.values()) > budget:
        wanted = _shared(fits, wanted, budget)
    nodes: dict[str, int] = {}
    for part in wanted.values():
        for obj_id, tokens in part.nodes.items():
            nodes[obj_id] = nodes.get(obj_id, 0) + tokens
    return Tail(
        "".join(wanted[section].text for section in SECTIONS),
        sum(part.tokens for part in wanted.values()),
        {section.name: part.tokens for section, part in wanted.items() if part.tokens},
        nodes,
    )


def _shared(fits: Mapping[Section, Fit], wanted: Mapping[Section, Part], budget: int) -> dict[Section, Part]:
    ranked = sorted(SECTIONS, key=lambda section: section.rank)
    counted_on = _counted_on(ranked, wanted, budget)
    left = budget
    given = dict.fromkeys(SECTIONS, EMPTY)
    for place, section in enumerate(ranked):
        room = left - sum(counted_on[later] for later in ranked[place + 1 :])
        given[section] = _within(section, fits[section], wanted[section], room)
        left -= given[section].tokens
    for section in ranked:
        if given[section].tokens < wanted[section].tokens and left:
            more = _within(section, fits[section], wanted[section], given[section].tokens + left)
            if more.tokens > given[section].tokens:
                left -= more.tokens - given[section].tokens
                given[section] = more
    return given


def _counted_on(ranked: Sequence[Section], wanted: Mapping[Section, Part], budget: int) -> dict[Section, int]:
    """What each may count on; what there is beside the share of the first, as far as it goes."""
    left = 0 if budget < _SMALL else budget - int(ranked[0].share * budget)
    counted_on = dict.fromkeys(ranked, 0)
    for section in ranked[1:]:
        tokens = min(wanted[section].tokens, max(section.floor, int(section.share * budget)))
        if tokens <= left:
            counted_on[section] = tokens
            left -= tokens
    return counted_on


def _within(section: Section, fit: Fit, wanted: Part, room: int) -> Part:
    if wanted.tokens <= room:
        return wanted
    return fit(room) if room >= section.floor else EMPTY
