"""The cycles that have ended, as positions: a session has one for each statement, and holds them for good.

Most have no items, because they are statements from outside a turn, so what few of them have is kept apart. Must not
know when a cycle ends. Used by `fold`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import cast

from ...core.ids import Seq
from ..event_list import Lookup, event_at
from ..events.conversation import RunStop, ToolResult, UserMessage
from .model import Item, RequestCycle


class EndedCycles:
    """By their places, which are their numbers less one. `waiting` is how many prompts the queue had at their ends."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        self._roots = array("q")
        self._stops = array("q")
        self._queued: set[int] = set()
        """Those whose root had waited."""
        self._items: dict[int, tuple[Seq, ...]] = {}
        self._late: dict[int, tuple[Seq, ...]] = {}

    def __len__(self) -> int:
        return len(self._stops)

    def append(self, cycle: RequestCycle, items: Iterable[Item], stop: RunStop) -> None:
        """Takes the one that ends with `stop`."""
        place = len(self)
        self._roots.append(cycle.root.seq)
        self._stops.append(stop.seq)
        if cycle.root_kind == "followUp":
            self._queued.add(place)
        if found := tuple(item.seq for item in items):
            self._items[place] = found

    def cycle(self, place: int, at: Lookup) -> RequestCycle:
        """The one at that place, with its events."""
        return RequestCycle(
            number=place + 1,
            root=event_at(at, Seq(self._roots[place]), UserMessage),
            root_kind="followUp" if place in self._queued else "direct",
            items=tuple(cast("Item", at(seq)) for seq in self._items.get(place, ())),
            stop=event_at(at, Seq(self._stops[place]), RunStop),
            late=tuple(event_at(at, seq, ToolResult) for seq in self._late.get(place, ())),
        )

    def cycles(self, at: Lookup) -> Iterator[RequestCycle]:
        """All of them."""
        return (self.cycle(place, at) for place in range(len(self)))

    def place(self, stop: int) -> int | None:
        """That of the one which the RunStop at that position ended; None where it ended none."""
        place = bisect_left(self._stops, stop)
        return place if place < len(self) and self._stops[place] == stop else None

    def answer(self, place: int, result: ToolResult) -> None:
        """Takes a result of one of its calls, which has come since."""
        self._late[place] = (*self._late.get(place, ()), result.seq)
