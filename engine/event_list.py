"""A log's events in memory: the newest as they are, older ones packed, so that a long session takes little.

Events are taken in blocks. Of a full block that is no longer among the newest, the JSON is kept, compressed: some 50
bytes an event for some 800. It is unpacked when one of its events is asked for, and the blocks that were asked for last
stay unpacked for a while, so that whoever goes through events in order, either way, unpacks each block once. A block
that is large, or that JSON would not give back as it was, stays as it is.

Packing goes by the number of events alone, and a little at a time, because whoever appends waits for it. A log that was
loaded has all its events unpacked, and gets smaller as it is used.

So who keeps an event keeps all of it, and a read model that follows a log for good keeps positions. Must not know what
events mean nor where else they are kept. Used by `log`; `Lookup` by the read models.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar, cast, overload

from .events import Event
from .events.codec import UndecodableEventError, decode, encode
from .ids import Seq

BLOCK: Final = 128
NEWEST: Final = 256
"""So many events at least are not packed: what is asked for all the time."""
_OPENED: Final = 4
"""Packed blocks that stay unpacked a while when one of their events was asked for."""
_EVERY: Final = 16
"""Appended events for each block that is packed: of a log that was loaded there are thousands."""
_LEVEL: Final = 6
_LARGE: Final = 512 << 10
"""Bytes of a block's JSON from which on it stays as it is, because packing takes 20 ms a megabyte."""

E = TypeVar("E", bound=Event)
Lookup = Callable[[Seq], Event]
"""The event at a position of a log."""
_Block = list[Event] | tuple[Event, ...] | bytes
"""Events that may be packed, those that cannot be, and packed ones."""


class EventList:
    """Events by their positions, which are 0, 1, 2 ... To be used by one thread."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._length = 0
        self._packed = 0
        """How many blocks are packed, or cannot be: the first ones."""
        self._opened: dict[int, list[Event | bytes]] = {}
        """Of packed blocks, by their numbers, the events that were asked for, and the JSON of the others."""

    def append(self, event: Event) -> None:
        """Takes the next event."""
        self._take(event)
        if self._length % _EVERY == 0 and (self._packed + 1) * BLOCK + NEWEST <= self._length:
            self._blocks[self._packed] = _packed(self._blocks[self._packed])
            self._packed += 1

    def extend(self, events: Iterable[Event]) -> None:
        """Takes events that follow, and packs none."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if self._length % BLOCK == 0:
            self._blocks.append([])
        block = self._blocks[-1]
        assert isinstance(block, list)
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
        if not isinstance(block, bytes):
            return block[place]
        opened = self._open(number, block)
        event = opened[place]
        if isinstance(event, bytes):
            event = opened[place] = decode(event)
        return event

    def _open(self, number: int, block: bytes) -> list[Event | bytes]:
        opened = self._opened.pop(number, None)
        if opened is None:
            opened = list[Event | bytes](_lines(block))
            if len(self._opened) == _OPENED:
                del self._opened[next(iter(self._opened))]
        self._opened[number] = opened
        return opened

    def between(self, start: int, end: int) -> Iterator[Event]:
        """The events from position `start` on and before `end`, within those that there are."""
        while start < end:
            number, place = divmod(start, BLOCK)
            block, last = self._blocks[number], min(end - number * BLOCK, BLOCK)
            if isinstance(block, bytes):
                yield from map(decode, _lines(block)[place:last])
            else:
                yield from block[place:last]
            start += last - place

    def so_far(self) -> Sequence[Event]:
        """Those that there are now; what is appended later does not change it."""
        return _SoFar(self)


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


def _packed(block: _Block) -> _Block:
    assert isinstance(block, list)
    try:
        lines = [encode(event) for event in block]
        is_whole = sum(map(len, lines)) < _LARGE and list(map(decode, lines)) == block
    except (UndecodableEventError, ValueError, TypeError, OverflowError, RecursionError):
        is_whole, lines = False, []
    return zlib.compress(b"\n".join(lines), _LEVEL) if is_whole else tuple(block)


def _lines(block: bytes) -> list[bytes]:
    return zlib.decompress(block).split(b"\n")


def lookup_in(events: Iterable[Event]) -> Lookup:
    """For a log that no `EventLog` holds, or a path of it: finds its events by their positions."""
    return {event.seq: event for event in events}.__getitem__


def event_at(at: Lookup, seq: Seq, kind: type[E]) -> E:
    """The event at that position, which is known to be of that kind."""
    event = at(seq)
    assert isinstance(event, kind)
    return event
