"""The manipulation indices of a growing sequence of entries: the gaps that no property closes.

Gap `i` is the one before entry `i`; `0 <= i <= length`. Open gaps are a stack in ascending order: what an entry
closes lies at the top, then it pushes the gap after it, so that a gap is pushed once and popped for good once. Must not
know why a property closes a gap. Owned by the View; entries are never taken out, a changed sequence gets new indices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from ..errors import NoManipulationIndexError
from ..events import Event
from .entries import TEXTS, TOOL_EVENTS
from .properties import PROPERTIES, Property
from .rule import BoundaryRule


class Indices:
    """Open gaps, maintained by the closers of each property. Appending is O(1) amortised."""

    __slots__ = ("_closers", "_length", "_open")

    def __init__(self, properties: Iterable[Property]) -> None:
        tables = [each.closers() for each in properties]
        kinds: tuple[type[Event], ...] = (*TEXTS, *TOOL_EVENTS)
        self._closers = {kind: tuple(table[kind] for table in tables if kind in table) for kind in kinds}
        self._open = [0]
        self._length = 0

    @classmethod
    def over(cls, entries: Iterable[Event], properties: Iterable[Property]) -> Indices:
        """The indices of `entries` as these properties close them. O(n)."""
        indices = cls(properties)
        for entry in entries:
            indices.append(entry)
        return indices

    def append(self, entry: Event) -> None:
        position, open_gaps = self._length, self._open
        after = self._length = position + 1
        is_open = True
        for closer in self._closers[type(entry)]:
            closed = closer(position, entry)
            if closed is not None:
                start = closed.start
                while open_gaps and open_gaps[-1] >= start:
                    open_gaps.pop()
                if closed.stop > after:
                    is_open = False
        if is_open:
            open_gaps.append(after)

    def find_next(self, threshold: int) -> int:
        """The smallest index that is at least `threshold`, in O(log n).

        Raises:
            NoManipulationIndexError: there is none.
        """
        open_gaps = self._open
        found = bisect_left(open_gaps, threshold)
        if found == len(open_gaps):
            raise NoManipulationIndexError(threshold, self._length)
        return open_gaps[found]

    def snapshot(self) -> tuple[int, ...]:
        """All indices in ascending order."""
        return tuple(self._open)


def indices_of(
    entries: Iterable[Event],
    rule: BoundaryRule = BoundaryRule.GAPS,
    properties: Iterable[type[Property]] = PROPERTIES,
) -> tuple[int, ...]:
    """The manipulation indices of any sequence of entries."""
    return Indices.over(entries, (kind(rule) for kind in properties)).snapshot()
