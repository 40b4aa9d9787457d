"""The tail of a prompt: its sections as a table, and how they share one exact budget.

`assemble` is called by the Board. Each row of `SECTIONS` prepares a function from a budget to a `Part`, which may be
called several times. If all that the sections want fits, they get it. Otherwise they are served by rank: each gets
what it wants, except for what later ones may count on; what one does not use, the next may. At the end, cut sections
get the rest, again by rank. Rank 0 is the handle table, because with the names of its handles a model can ask for
anything else; at the smallest budgets it is the only section.

No section exceeds its budget, and these budgets never add up to more than the whole, so the tail never exceeds its
budget in any state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ...files.tails import HandleRow, News, Policy
from . import section_parts, timeline
from .section_parts import EMPTY, Block, Count, Part, Surface, blocks, feed

EXPANSIONS: Final = "Shown by the user or by another program:\n"
_HOW_TO_SHOW: Final = "; show(NAME) shows a handle"
_SMALL: Final = 96
"""Below this budget only the section of rank 0 has a share; the others get what it leaves."""

Fit = Callable[[int], Part]
"""Writes a section within a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailState:
    """The input of a tail.

    `groups`, `expansions` and `pins` begin with the most important: these are kept if not all fit. `policies` are
    those of living handles that the past statements of `news` made, by handle id.
    """

    rows: tuple[HandleRow, ...] = ()
    news: News = field(default_factory=News)
    groups: tuple[Surface, ...] = ()
    expansions: tuple[Block, ...] = ()
    pins: tuple[Surface, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict[str, Policy])

    @property
    def names(self) -> Mapping[str, str]:
        """The name of each handle, by its id."""
        return {row.obj_id: row.name for row in self.rows}


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the table.

    A section is omitted below `floor` tokens. `share` is the part of the budget that it may count on if not all fits.
    """

    name: str
    rank: int
    floor: int
    share: float
    prepare: Callable[[TailState, Count], Fit]


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail's text, its exact tokens, and the tokens of each section and about each handle."""

    text: str
    tokens: int
    sections: Mapping[str, int]
    nodes: Mapping[str, int]


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
    return partial(blocks, EXPANSIONS, state.expansions, count=count, older=left_out, advice=_HOW_TO_SHOW)


def _pins(state: TailState, count: Count) -> Fit:
    return partial(section_parts.pins, state.pins, count=count)


def _plan(state: TailState, count: Count) -> Fit:
    return partial(section_parts.plan, state.news.plan, count=count)


def _nothing(_: int) -> Part:
    return EMPTY


SECTIONS: Final = (
    Section("timeline", 5, 64, 1 / 8, _timeline),
    Section("feed", 1, 24, 1 / 3, _feed),
    Section("handles", 0, 0, 1 / 4, _handles),
    Section("groups", 3, 64, 1 / 4, _groups),
    Section("expansions", 4, 64, 1 / 6, _expansions),
    Section("pins", 2, 24, 1 / 12, _pins),
    Section("plan", 6, 24, 1 / 12, _plan),
)
"""In the order of the tail."""


def assemble(state: TailState, budget: int, count: Count) -> Tail:
    """Write the tail within `budget` tokens; empty if there is nothing to say."""
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
    """Return the tokens that each section may count on: its share, while the budget lasts."""
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
