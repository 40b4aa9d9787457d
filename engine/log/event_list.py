"""A log's events: the newest in memory, older ones where they are kept for good, so that a long session takes little.

Events are taken in blocks. A full block that is no longer among the newest is let go when all of it is durable, and
read when one of its events is asked for. The blocks that were asked for last stay in memory for a while, so that
whoever goes through events in order, either way, reads each block once. An event that was read is what JSON makes of
the one that was taken, as in a session that is loaded: equal to it, but that a tuple in the arguments of a call is a
list. Where nothing is kept for good, all events stay.

Blocks go by the number of events alone, and a few at a time, because whoever appends waits for it. A log that was
loaded has all its events in memory, for the read models that are about to go through them, and lets go of them as it
is used.

So who keeps an event keeps all of it, and a read model that follows a log for good keeps positions. Must not know what
events mean. Used by `log`; `Lookup` by the read models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, Protocol, TypeVar, cast, overload

from ..core.ids import Seq
from .events import Event

BLOCK: Final = 32
NEWEST: Final = 256
"""So many events at least stay in memory: what is asked for all the time."""
_READ: Final = 8
"""Blocks that stay in memory a while when one of their events was asked for."""
_AT_ONCE: Final = 256
"""Events that whoever goes through all of them has in memory at a time."""
_EVERY: Final = 16
"""Appended events for each block that is let go: of a log that was loaded there are thousands."""

E = TypeVar("E", bound=Event)
Lookup = Callable[[Seq], Event]
"""The event at a position of a log."""


class Backing(Protocol):
    """Where the events of a log are kept for good."""

    @property
    def kept(self) -> int:
        """How many are: the first ones. Never fewer than before."""
        ...

    def between(self, start: int, end: int) -> Sequence[Event]:
        """Those from position `start` on and before `end`, all of which are kept. Raises StoreError."""
        ...


class EventList:
    """Events by their positions, which are 0, 1, 2 ... One thread appends; any may read.

    Whatever reads old events raises the StoreError of the `backing`.
    """

    def __init__(self, backing: Backing | None = None) -> None:
        self._backing = backing
        self._blocks: list[list[Event] | None] = []
        """None in the place of those that were let go."""
        self._length = 0
        self._gone = 0
        """How many blocks were let go: the first ones."""
        self._again = lru_cache(_READ)(partial(_block, backing))
        """Reads one of these, by its number."""

    def append(self, event: Event) -> None:
        """Takes the next event."""
        self._take(event)
        if self._length % _EVERY == 0 and self._backing is not None:
            end = (self._gone + 1) * BLOCK
            if end + NEWEST <= self._length and end <= self._backing.kept:
                # Counted first: another thread that finds the block gone reads as far as is counted.
                self._gone += 1
                self._blocks[self._gone - 1] = None

    def extend(self, events: Iterable[Event]) -> None:
        """Takes events that follow, and lets none go."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if self._length % BLOCK == 0:
            self._blocks.append([])
        block = self._blocks[-1]
        assert block is not None
        block.append(event)
        self._length += 1

    def __len__(self) -> int:
        return self._length

    def at(self, position: int) -> Event:
        """The event at a position, from 0 on. Raises IndexError where there is none yet."""
        if not 0 <= position < self._length:
            raise IndexError(f"there is no event at {position}")
        number, place = divmod(position, BLOCK)
        block = self._blocks[number]
        return (self._again(number) if block is None else block)[place]

    def between(self, start: int, end: int) -> Iterator[Event]:
        """The events from position `start` on and before `end`, within those that there are."""
        while start < end:
            number, place = divmod(start, BLOCK)
            block = self._blocks[number]
            if block is None:
                assert self._backing is not None
                found = self._backing.between(start, min(end, start + _AT_ONCE, self._gone * BLOCK))
            else:
                found = block[place : end - number * BLOCK]
            yield from found
            start += len(found)

    def so_far(self) -> Sequence[Event]:
        """Those that there are now; what is appended later does not change it."""
        return _SoFar(self)


def _block(backing: Backing | None, number: int) -> Sequence[Event]:
    assert backing is not None
    return backing.between(number * BLOCK, (number + 1) * BLOCK)


class _SoFar(Sequence[Event]):
    """The first events of a list, as a tuple of them would be, and without the memory of one."""

    __slots__ = ("_events", "_length")

    def __init__(self, events: EventList) -> None:
        self._events = events
        self._length = len(events)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Event]:
        return self._events.between(0, self._length)

    @overload
    def __getitem__(self, place: int) -> Event: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Event]: ...

    def __getitem__(self, place: int | slice) -> Event | Sequence[Event]:
        found = range(self._length)[place]
        if isinstance(found, int):
            return self._events.at(found)
        if found.step == 1:
            return tuple(self._events.between(found.start, found.stop))
        return tuple(map(self._events.at, found))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | _SoFar):
            return NotImplemented
        others = cast("Sequence[object]", other)
        return len(self) == len(others) and all(mine == its for mine, its in zip(self, others, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._length} events>"


def lookup_in(events: Iterable[Event]) -> Lookup:
    """For a log that no `EventLog` holds, or a path of it: finds its events by their positions."""
    return {event.seq: event for event in events}.__getitem__


def event_at(at: Lookup, seq: Seq, kind: type[E]) -> E:
    """The event at that position, which is known to be of that kind."""
    event = at(seq)
    assert isinstance(event, kind)
    return event
