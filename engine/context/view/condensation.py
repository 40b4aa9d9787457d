"""Condensations: applied to entries, checked before they are logged, and where to cut.

Owns how events leave and where their summary goes. `condensed` applies any Condensation, even a bad one; `refusal` is
the log's check; `with_summary_at_index` moves a summary that would split a unit, for a bad one from elsewhere.
`choose_cut` is the policy: the smallest prefix that brings the View under a target, without entries that must stay.
Must not know the text of a summary, nor when to condense.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from ...core.ids import EventId
from ...log.events import Event
from ...log.events.conversation import Condensation, ToolCall, UserMessage
from .entries import Summary, summary_of
from .properties import Property
from .well_formed import Correction, Enforced, Indices


def condensed(entries: Sequence[Event], condensation: Condensation) -> list[Event]:
    """Apply a Condensation; an offset past the end means the end.

    Unknown ids are ignored. A summary without an offset, or an offset without a summary, inserts nothing.
    """
    forgotten = frozenset(condensation.forgotten)
    remaining = [entry for entry in entries if entry.event_id not in forgotten]
    summary = summary_of(condensation)
    if summary is not None:
        # Clamped, because `insert` accepts 64 bits only, and a log from elsewhere may have a larger number.
        remaining.insert(min(max(condensation.summary_offset or 0, 0), len(remaining)), summary)
    return remaining


def refusal(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> str | None:
    """Return why a log with the View `entries` must refuse this Condensation, or None.

    A cut is safe between two indices, an insertion at one; both refer to the View before it.
    """
    forgotten = frozenset(condensation.forgotten)
    missing = forgotten - {entry.event_id for entry in entries}
    if missing:
        return f"event {min(missing)} is not in the View; forget only events in the View"
    for low, high, gap in _unsafe_cuts(entries, indices, forgotten):
        return f"the cut {low}:{high} would split related events; no cut is allowed at gap {gap}"
    if (condensation.summary is None) != (condensation.summary_offset is None):
        return "give both a summary and its offset, or neither"
    if condensation.summary_offset is None:
        return None
    kept = len(entries) - sum(entry.event_id in forgotten for entry in entries)
    if not 0 <= condensation.summary_offset <= kept:
        return f"summary offset {condensation.summary_offset} is outside 0..{kept}; {kept} events remain in the View"
    if not offset_is_safe(entries, indices, condensation):
        return f"summary offset {condensation.summary_offset} would split related events; no cut is allowed there"
    return None


def cuts_are_safe(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> bool:
    """Return whether every forgotten range is between two indices of `entries`, before the cuts."""
    return next(_unsafe_cuts(entries, indices, frozenset(condensation.forgotten)), None) is None


def offset_is_safe(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> bool:
    """Return whether an index of `entries`, before the cuts, is the gap of the summary's offset after them.

    Inserting at an index and then cutting between others is safe, and gives the same entries.
    """
    if condensation.summary_offset is None:
        return True
    forgotten = frozenset(condensation.forgotten)
    kept = [position for position, entry in enumerate(entries) if entry.event_id not in forgotten]
    offset = min(max(condensation.summary_offset, 0), len(kept))
    low = kept[offset - 1] + 1 if offset > 0 else 0
    high = kept[offset] if offset < len(kept) else len(entries)
    return not frozenset(indices).isdisjoint(range(low, high + 1))


def with_summary_at_index(
    entries: Sequence[Event], summary: EventId, properties: Sequence[Property], was_at_index: bool
) -> Enforced:
    """Insert a summary at the nearest index before it, if it would split a unit.

    Args:
        was_at_index: its place was an index before the cuts, so it can only split a unit made by an unsafe cut: `call
            result duplicate` without its result is a new pair. This is judged with the summary in place, because
            without it two loops that the cuts joined would look like one.
    """
    named = (at for at, entry in enumerate(entries) if isinstance(entry, Summary) and entry.event_id == summary)
    position = next(named, None)
    if position is None:
        return Enforced(tuple(entries), ())
    rest = [*entries[:position], *entries[position + 1 :]]
    judged = entries if was_at_index else rest
    for each in properties:
        if position not in Indices.over(judged, (each,)).snapshot():
            indices = Indices.over(rest, properties).snapshot()
            target = max((index for index in indices if index < position), default=len(rest))
            return Enforced((*rest[:target], entries[position], *rest[target:]), (Correction(each.name, 1),))
    return Enforced(tuple(entries), ())


def _unsafe_cuts(
    entries: Sequence[Event], indices: Sequence[int], forgotten: frozenset[str]
) -> Iterator[tuple[int, int, int]]:
    """Yield each cut with a bound that is not an index: `low`, `high` and that bound."""
    open_gaps = frozenset(indices)
    for low, high in _cuts(entries, forgotten):
        for gap in (low, high):
            if gap not in open_gaps:
                yield low, high, gap


def _cuts(entries: Sequence[Event], forgotten: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the forgotten ranges `low:high`."""
    low: int | None = None
    for position, entry in enumerate(entries):
        if entry.event_id not in forgotten:
            if low is not None:
                yield low, position
            low = None
        elif low is None:
            low = position
    if low is not None:
        yield low, len(entries)


# --- where to cut ----------------------------------------------------------------------------------------------------


SUMMARY_SHARE: Final = 4
SUMMARY_FLOOR: Final = 256
SUMMARY_TOKENS: Final = 2_000
"""Least and most tokens of a summary, which else may cost a fraction of what it replaces.

A prefix that costs less than its summary is kept.
"""


class Cut(Struct, frozen=True):
    """Entries to forget: positions in the View, ascending, and their tokens."""

    positions: tuple[int, ...]
    tokens: int

    @property
    def summary_tokens(self) -> int:
        """Tokens that a summary may cost."""
        return _allowance(self.tokens)


def choose_cut(
    indices: Sequence[int], costs: Sequence[int], target: int, *, keep: int | None = None, end: int | None = None
) -> Cut | None:
    """Choose the smallest prefix to forget so that at most `target` tokens remain, summary included.

    If no prefix does that, the one that leaves least.

    Args:
        indices: the View's manipulation indices, ascending.
        costs: tokens of each entry.
        target: tokens.
        keep: position of an entry that always stays, such as the current request.
        end: the gap that the prefix must not pass; None for the end of the View.

    Returns:
        None if nothing can be forgotten, or too little to be worth a summary.
    """
    open_gaps = frozenset(indices)
    spent = (0, *accumulate(costs))
    can_skip = keep is not None and {keep, keep + 1} <= open_gaps
    best: tuple[int, int, int] | None = None
    for gap in indices:
        skips = keep is not None and keep < gap
        if (end is not None and gap > end) or (skips and not can_skip):
            break
        freed = spent[gap] - (costs[keep] if keep is not None and skips else 0)
        left = spent[-1] - freed + _allowance(freed)
        if freed > _allowance(freed) and (best is None or left < best[0]):
            best = (left, gap, freed)
        if best is not None and best[0] <= target:
            break
    if best is None:
        return None
    _, gap, freed = best
    return Cut(tuple(position for position in range(gap) if position != keep), freed)


def current_request(events: Sequence[Event]) -> int | None:
    """Return the position of the user's newest message that is not a steer.

    Returns None without one.
    """
    positions = range(len(events) - 1, -1, -1)
    return next((position for position in positions if _is_request(events[position])), None)


def unread(events: Sequence[Event]) -> int:
    """Return, in an open run, the gap before the entries that no model call has read.

    It is before the newest reply with calls, because their results belong to it, or else before the request.
    """
    request = current_request(events)
    start = 0 if request is None else request
    calls = [event for event in events[start:] if isinstance(event, ToolCall)]
    if not calls:
        return start
    for position, event in enumerate(events[start:], start):
        if isinstance(event, ToolCall) and (event is calls[-1] or _is_sibling(event, calls[-1])):
            return position
    raise AssertionError("the newest call must be among the events")


def _is_request(event: Event) -> bool:
    return isinstance(event, UserMessage) and event.prompt_kind != "steer"


def _is_sibling(call: ToolCall, other: ToolCall) -> bool:
    return call.llm_response_id is not None and call.llm_response_id == other.llm_response_id


def _allowance(forgotten_tokens: int) -> int:
    return min(SUMMARY_TOKENS, max(SUMMARY_FLOOR, forgotten_tokens // SUMMARY_SHARE))
