"""The manipulation indices of a growing sequence of entries: the gaps that no property closes.

Gap `i` is the one before entry `i`; `0 <= i <= length`. Open gaps are a stack in ascending order: what an entry
closes lies at the top, then it pushes the gap after it, so that a gap is pushed once and popped for good once. Must not
know why a property closes a gap. Owned by the View; entries are never taken out, a changed sequence gets new indices.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...log.events import Event
from .entries import TEXTS, TOOL_EVENTS
from .properties import PROPERTIES, Closer, Property
from .rule import BoundaryRule


class Indices:
    """Open gaps, maintained by the closers of each property. Appending is O(1) amortised.

    `gaps` is the live stack in ascending order, for the View alone to search; others get a `snapshot`.
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
        """The indices of `entries` as these properties close them. O(n)."""
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
        """All indices in ascending order."""
        return tuple(self.gaps)


def indices_of(
    entries: Iterable[Event],
    rule: BoundaryRule = BoundaryRule.GAPS,
    properties: Iterable[type[Property]] = PROPERTIES,
) -> tuple[int, ...]:
    """The manipulation indices of any sequence of entries."""
    return Indices.over(entries, (kind(rule) for kind in properties)).snapshot()
