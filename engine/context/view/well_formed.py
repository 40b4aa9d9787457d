"""Enforcement, indices and other facts about a sequence of entries, for any properties.

Enforcement finds the greatest set of entries that satisfies every property. Each property names entries that violate
it, and those that must follow a removal. One work list runs until it is empty; every entry is removed at most once, so
the cost is linear. A removal never makes another entry acceptable, so the order does not matter, and there is one
greatest set. Must not know what the properties are about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ...core.ids import LlmResponseId
from ...log.events import Event
from ...log.events.conversation import ToolCall
from .entries import TEXTS, TOOL_EVENTS, BoundaryRule
from .properties import PROPERTIES, Closer, Property, Watch, Watcher


class Correction(Struct, frozen=True):
    """A property removed `count` entries, or moved a summary."""

    property_name: str
    count: int


class Enforced(Struct, frozen=True):
    """The remaining entries, in order, and the corrections of each property.

    Returns None if well-formed.
    """

    events: tuple[Event, ...]
    corrections: tuple[Correction, ...]


def enforce(entries: Sequence[Event], properties: Sequence[Property], open_run: bool) -> Enforced:
    """Remove the entries that violate any of `properties`.

    An entry that violates several is counted for the first that named it. With `open_run`, calls that the current run
    still waits for count as answered.
    """
    enforcements = [each.enforcement(entries, open_run) for each in properties]
    stays = bytearray(b"\1") * len(entries)
    counts = [0] * len(properties)
    pending: deque[int] = deque()

    def take(positions: Iterable[int], reason: int) -> None:
        for position in positions:
            if stays[position]:
                stays[position] = 0
                counts[reason] += 1
                pending.append(position)

    for reason, enforcement in enumerate(enforcements):
        take(enforcement.offending(), reason)
    while pending:
        position = pending.popleft()
        for reason, enforcement in enumerate(enforcements):
            take(enforcement.after(position), reason)

    corrections = tuple(Correction(each.name, count) for each, count in zip(properties, counts, strict=True) if count)
    return Enforced(tuple(compress(entries, stays)), corrections)


# --- indices ---------------------------------------------------------------------------------------------------------


class Indices:
    """Open gaps, maintained by the closers of each property.

    Appending is O(1) amortised.

    Gap `i` is before entry `i`; `0 <= i <= length`. Open gaps are a stack in ascending order: what an entry closes is
    at the top, then it pushes the gap after it, so a gap is pushed once and popped for good once. Entries are never
    taken out; a changed sequence gets new indices. `gaps` is the live stack, for the View's own searches; others get a
    `snapshot`.
    """

    __slots__ = ("_closers", "_length", "gaps")

    def __init__(self, properties: Iterable[Property]) -> None:
        tables = [each.closers() for each in properties]
        self._closers: dict[type[Event], tuple[Closer, ...]] = {
            kind: tuple(table[kind] for table in tables if kind in table) for kind in (*TEXTS, *TOOL_EVENTS)
        }
        self.gaps = [0]
        self._length = 0

    @classmethod
    def over(cls, entries: Iterable[Event], properties: Iterable[Property]) -> Indices:
        """Return the indices of `entries`. O(n)."""
        indices = cls(properties)
        append = indices.append
        for entry in entries:
            append(entry)
        return indices

    def append(self, entry: Event) -> None:
        position, open_gaps = self._length, self.gaps
        after = self._length = position + 1
        is_open = True
        for closer in self._closers[type(entry)]:
            closed = closer(position, entry)
            if closed is not None:
                first, last = closed
                while open_gaps and open_gaps[-1] >= first:
                    open_gaps.pop()
                if last == after:
                    is_open = False
        if is_open:
            open_gaps.append(after)

    def snapshot(self) -> tuple[int, ...]:
        """Return all indices, ascending."""
        return tuple(self.gaps)


def indices_of(
    entries: Iterable[Event],
    rule: BoundaryRule = BoundaryRule.GAPS,
    properties: Iterable[type[Property]] = PROPERTIES,
) -> tuple[int, ...]:
    """Return the manipulation indices of any sequence of entries."""
    return Indices.over(entries, (kind(rule) for kind in properties)).snapshot()


# --- whether anything is to be enforced ------------------------------------------------------------------------------


_NONE: Final = -1


class Quiet:
    """Tells whether there is anything to enforce, without a pass over the entries at each model call.

    In a log that was only appended to nothing violates a property; a bad condensation or an import may. So the enforced
    entries are nearly always the entries. Entries are watched on demand, each once, so appending costs nothing. Watches
    a sequence that only grows while its generation stays the same.
    """

    __slots__ = ("_generation", "_properties", "_seen", "_watchers", "_watches")

    def __init__(self, properties: Iterable[Property]) -> None:
        self._properties = tuple(properties)
        self._generation = _NONE
        self._seen = 0
        self._watches: tuple[Watch, ...] = ()
        self._watchers: dict[type[Event], list[Watcher]] = {}

    def holds(self, entries: Sequence[Event], generation: int, open_run: bool) -> bool:
        """Return whether `entries` satisfy every property.

        O(new entries since the last call).

        May return False although they do; then enforcement finds out. `open_run` is as for `enforce`.
        """
        if generation != self._generation:
            self._begin(generation)
        watchers = self._watchers
        for position in range(self._seen, len(entries)):
            entry = entries[position]
            for watcher in watchers.get(type(entry), ()):
                watcher(entry)
        self._seen = len(entries)
        return all(watch.is_quiet(open_run) for watch in self._watches)

    def _begin(self, generation: int) -> None:
        self._generation = generation
        self._seen = 0
        self._watches = tuple(each.watch() for each in self._properties)
        self._watchers = {}
        for watch in self._watches:
            for kind, watcher in watch.watchers().items():
                self._watchers.setdefault(kind, []).append(watcher)


# --- batches and loops -----------------------------------------------------------------------------------------------


def batches(entries: Sequence[Event]) -> Mapping[LlmResponseId, tuple[int, ...]]:
    """Return the positions of each batch's actions.

    A call without a response id is a batch under its own event id.
    """
    found: dict[LlmResponseId, list[int]] = {}
    for position, entry in enumerate(entries):
        if isinstance(entry, ToolCall):
            key = LlmResponseId(entry.event_id) if entry.llm_response_id is None else entry.llm_response_id
            found.setdefault(key, []).append(position)
    return MappingProxyType({key: tuple(positions) for key, positions in found.items()})


def batch_ranges(entries: Sequence[Event]) -> tuple[tuple[int, int, bool], ...]:
    """Return (first position, last position, whether any action has thinking) of each batch, in order."""
    return tuple(
        (positions[0], positions[-1], any(_thinks(entries[position]) for position in positions))
        for positions in batches(entries).values()
    )


def tool_loop_ranges(entries: Sequence[Event], rule: BoundaryRule) -> tuple[tuple[int, int], ...]:
    """Return (first, last) position of each tool loop, inclusive, in order."""
    return _published_loops(entries) if rule is BoundaryRule.POSITIONS else _loops(entries)


def _loops(entries: Sequence[Event]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    inside = False
    for position, entry in enumerate(entries):
        if _thinks(entry):
            found.append((position, position))
            inside = True
        elif not isinstance(entry, TOOL_EVENTS):
            inside = False
        elif inside:
            found[-1] = (found[-1][0], position)
    return tuple(found)


def _published_loops(entries: Sequence[Event]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last, thinks in batch_ranges(entries):
        if not thinks or (found and found[-1][1] >= last):
            continue
        end = last
        while end + 1 < len(entries) and isinstance(entries[end + 1], TOOL_EVENTS):
            end += 1
        start = first
        while found and found[-1][1] >= start:
            start = min(start, found.pop()[0])
        found.append((start, end))
    return tuple(found)


def _thinks(entry: Event) -> bool:
    return isinstance(entry, ToolCall) and bool(entry.thinking)
