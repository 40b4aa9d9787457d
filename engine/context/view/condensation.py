"""Condensations applied to a sequence of entries, and what makes one unacceptable.

Owns how events leave and where their summary goes. Must not know when to condense or what to forget: that is policy.
`condensed` applies a Condensation, also a bad one; `refusal` is what the log asks before it appends one;
`with_summary_at_index` moves a summary out of a unit that it would split, where a bad one is on a log already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.ids import EventId
from ...log.events import Event
from ...log.events.conversation import Condensation
from .enforcement import Correction, Enforced
from .entries import Summary, summary_of
from .indices import Indices
from .properties import Property


def condensed(entries: Sequence[Event], condensation: Condensation) -> list[Event]:
    """The entries that remain, with the summary at its offset among them; past the end means at the end.

    Ids that are not there are ignored. A summary without an offset, or an offset without a summary, inserts nothing.
    """
    forgotten = frozenset(condensation.forgotten)
    remaining = [entry for entry in entries if entry.event_id not in forgotten]
    summary = summary_of(condensation)
    if summary is not None:
        # Clamped here, because `insert` takes no number beyond 64 bits, and a log from elsewhere may hold one.
        remaining.insert(min(max(condensation.summary_offset or 0, 0), len(remaining)), summary)
    return remaining


def refusal(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> str | None:
    """Why this Condensation must not be taken by a log whose View is `entries`, or None when it may.

    A cut is safe between two indices, an insertion at one; both are counted in the View as it is before.
    """
    forgotten = frozenset(condensation.forgotten)
    missing = forgotten - {entry.event_id for entry in entries}
    if missing:
        return f"{min(missing)} is not in the View; name events that are"
    for low, high, gap in _unsafe_cuts(entries, indices, forgotten):
        return f"the cut {low}:{high} would split what belongs together; gap {gap} is no manipulation index"
    if (condensation.summary is None) != (condensation.summary_offset is None):
        return "a summary and its offset go together; give both or neither"
    if condensation.summary_offset is None:
        return None
    kept = len(entries) - sum(entry.event_id in forgotten for entry in entries)
    if not 0 <= condensation.summary_offset <= kept:
        return f"summary offset {condensation.summary_offset} is outside 0..{kept}, the gaps of what remains"
    if not offset_is_safe(entries, indices, condensation):
        return f"summary offset {condensation.summary_offset} would split what belongs together; it is no index"
    return None


def cuts_are_safe(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> bool:
    """Whether every range that is forgotten lies between two indices of `entries`, as they are before."""
    return next(_unsafe_cuts(entries, indices, frozenset(condensation.forgotten)), None) is None


def offset_is_safe(entries: Sequence[Event], indices: Sequence[int], condensation: Condensation) -> bool:
    """Whether some index of `entries`, as they are before, is the gap that the summary's offset names after the cuts.

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
    """The entries with that summary at the nearest index before it, if it splits what a property holds together.

    Args:
        was_at_index: its place was an index before the cuts, so it can split only what an unsafe cut has made: `call
            result duplicate` without its result is a new pair. That is judged with the summary in its place, because
            without it two loops that the cuts have brought together would be taken for one.
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
    """Each cut with a bound that is no index: `low`, `high` and that bound."""
    open_gaps = frozenset(indices)
    for low, high in _cuts(entries, forgotten):
        for gap in (low, high):
            if gap not in open_gaps:
                yield low, high, gap


def _cuts(entries: Sequence[Event], forgotten: frozenset[str]) -> Iterator[tuple[int, int]]:
    """The ranges `low:high` of neighbours that are forgotten."""
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
