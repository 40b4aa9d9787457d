"""A session's log: append-only, the single source of everything that a session knows about itself.

`EventLog.append` is the only writer. It checks, redacts, stamps and keeps an event, passes it to the journal, which
makes it durable, and to the read models; all in memory. Read models are folds over the whole log or over the active
path, and nothing else can change them; docs/events.md lists them with the kinds that they follow. A read model that
follows for good keeps positions, because events would make it grow with the session. It calls `at` only when it is read
itself, never inside `apply`: reading an old event can fail, and the model would then miss the new event.

`EventList` keeps the newest events in memory. It takes them in blocks, drops a full block once all of it is durable and
no longer among the newest, and reads it again on demand. The last blocks read stay in memory, so reading in order, in
either direction, reads each block once. Appending drops only a few blocks at a time, because its caller waits. A log
that was loaded has all events in memory, for the read models that are about to read them, and drops them as it is used.
An event read again is what JSON makes of it, as in a loaded session: equal, except that a tuple in the arguments of a
call becomes a list.

Must not know what the events mean to a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol, TypeVar, cast, overload

from msgspec.structs import replace

from ..core.clock import Clock
from ..core.errors import InvalidEventError
from ..core.ids import EventId, Seq, ToolCallId
from .branches import Branches
from .events import UNSTAMPED, BranchEvent, Event
from .events.conversation import ToolCall, ToolResult
from .events.going_back import BranchCreated, HeadMoved

BLOCK: Final = 32
NEWEST: Final = 256
"""How many events, at least, stay in memory."""
_READ: Final = 8
"""How many old blocks stay in memory after they were read."""
_AT_ONCE: Final = 256
"""How many events an iteration over old ones reads at a time."""
_EVERY: Final = 16
"""Appended events per dropped block. A loaded log has thousands of blocks to drop."""
_MODEL: Final = "the model"
_ID_DIGITS: Final = 15
"""The longest number in an id that is counted on from. An imported log may have any ids."""

E = TypeVar("E", bound=Event)
Lookup = Callable[[Seq], Event]
"""Finds the event at a position of a log."""


class Backing(Protocol):
    """The durable events of a log."""

    @property
    def kept(self) -> int:
        """How many events are durable, from the first on. Never decreases."""
        ...

    def between(self, start: int, end: int) -> Sequence[Event]:
        """Read the events from `start` on and before `end`, all of them durable. Raises StoreError."""
        ...


Fold = Callable[[Event], None]
"""The method by which a read model receives every event, in order, exactly once."""


class PathFold(Protocol):
    """A read model of the active path. The same events give the same state, whether it was reset before or not."""

    def apply(self, event: Event) -> None:
        """Take the next event of the path."""
        ...

    def reset(self) -> None:
        """Start over: another path is active, and its events follow from the first one."""
        ...


class _Follower(NamedTuple):
    """A row of the table of read models. `kinds` None means all; `reset` is None if it follows the whole log."""

    fold: Fold
    kinds: Collection[type[Event]] | None = None
    reset: Callable[[], None] | None = None


class EventLog:
    """An append-only sequence of stamped events with the folds over it.

    Args:
        clock: stamps `at`.
        journal: receives every appended event, in order, to make it durable; must not block. If it raises (the session
            is read-only), the log stays as it was.
        folds: read models that receive each event before `append` returns.
        redact: removes secrets from an event before it is appended.
        check: returns a further reason to refuse an event, such as the View's rules for condensations, or None.
        backing: reads durable events again and may raise StoreError. Without it all events stay in memory.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Callable[[Event], None],
        folds: Iterable[Fold] = (),
        check: Callable[[Event], str | None] | None = None,
        redact: Callable[[Event], Event] | None = None,
        backing: Backing | None = None,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._followers: list[_Follower] = [_Follower(fold) for fold in folds]
        self._by_kind: dict[type[Event], tuple[Fold, ...]] = {}
        """The read models of each kind of event, as a cache."""
        self._check = check
        self._redact = redact
        self._calls = _Calls()
        self._events = EventList(backing)
        self._branches = Branches()
        self._number = 0
        """The number in the id of the next event."""

    def append(self, event: Event) -> Seq:
        """Stamp the event, keep it and pass it on; return its position.

        Raises:
            InvalidEventError: the event can never be valid on this log; nothing was written.
            StoreError: the head moves to a path that cannot be read; nothing was written.
        """
        if event.seq != UNSTAMPED:
            raise InvalidEventError(event.kind, "the event is on a log already")
        reason = self._calls.check(event) or (self._check(event) if self._check else None)
        if reason is None and isinstance(event, BranchEvent):
            reason = self._branches.refusal(event)
        if reason is not None:
            raise InvalidEventError(event.kind, reason)
        path = self._branches.path(self.events, event.branch) if isinstance(event, HeadMoved) else ()
        event = self.redacted(event)
        seq = Seq(len(self._events))
        branch = event.branch if type(event) is HeadMoved else self._branches.active
        event_id = EventId(f"e{self._number}")
        stamped = replace(event, seq=seq, event_id=event_id, at=self._clock.now(), branch_id=branch)
        self._journal(stamped)
        self._number += 1
        self._events.append(stamped)
        self._calls.apply(stamped)
        if self._branches.apply(stamped):
            self._move((*path, stamped))
        else:
            for fold in self._followers_of(type(stamped)):
                fold(stamped)
        return seq

    def _number_behind(self) -> int:
        """Return the number after the last event's, which is the highest even in a fork, whose numbers have gaps."""
        last = self._events.at(len(self._events) - 1).event_id[1:] if self._events else ""
        is_number = last.isascii() and last.isdigit() and len(last) <= _ID_DIGITS
        return max(int(last) + 1 if is_number else 0, len(self._events))

    def redacted(self, event: Event) -> Event:
        """Return the event as the log would keep it, without secrets and not yet stamped."""
        return event if self._redact is None else self._redact(event)

    def load(self, events: Iterable[Event]) -> None:
        """Take stamped events that are already durable. Lenient: folds cope with any events.

        The path that is active at their end is found first, so that path folds receive no other.

        Raises:
            InvalidEventError: this log has events already, or the positions are not 0, 1, 2 ...
        """
        if self._events:
            raise InvalidEventError("load", "only an empty log can be loaded")
        branches, loaded = self._branches, list[Event]()
        for position, event in enumerate(events):
            if event.seq != position:
                raise InvalidEventError(
                    event.kind, f"the event has position {event.seq}, but the next position is {position}"
                )
            loaded.append(event)
            # Checked here for speed: hardly one of hundreds of thousands of events concerns branches.
            if event.branch_id != branches.active or type(event) is BranchCreated:
                branches.apply(event)
        self._events.extend(loaded)
        is_branched = len(branches.all) > 1
        for event in loaded:
            kind = type(event)
            self._calls.apply(event)
            is_told = not is_branched or branches.holds(event)
            for fold in self._followers_of(kind) if is_told else self._beside_the_path(kind):
                fold(event)
        if is_branched:
            self._calls.begin_path(self.path)
        self._number = self._number_behind()

    def follow(self, fold: Fold, kinds: Collection[type[Event]] | None = None) -> None:
        """Let a read model follow the whole log, on every branch, from its first event on.

        With `kinds` it receives only these: most events concern few read models, and `append` waits for all of them.
        """
        self._begin(_Follower(fold, kinds))

    def follow_path(self, fold: PathFold, kinds: Collection[type[Event]] | None = None) -> None:
        """Let a read model follow the active path. When the head moves, it is reset and receives the new path.

        It stays the same object, so its users need not know of branches.
        """
        self._begin(_Follower(fold.apply, kinds, fold.reset))

    def _begin(self, follower: _Follower) -> None:
        self._tell(follower, self.events if follower.reset is None else self.path)
        self._followers.append(follower)
        self._by_kind.clear()

    @staticmethod
    def _tell(follower: _Follower, events: Iterable[Event]) -> None:
        fold, kinds, _ = follower
        for event in events:
            if kinds is None or type(event) in kinds:
                fold(event)

    def _followers_of(self, kind: type[Event]) -> tuple[Fold, ...]:
        found = self._by_kind.get(kind)
        if found is None:
            found = tuple(fold for fold, kinds, _ in self._followers if kinds is None or kind in kinds)
            self._by_kind[kind] = found
        return found

    def _beside_the_path(self, kind: type[Event]) -> Sequence[Fold]:
        """Return the read models of an event that is not on the active path."""
        return [fold for fold, kinds, reset in self._followers if reset is None and (kinds is None or kind in kinds)]

    def _move(self, path: Sequence[Event]) -> None:
        """Switch all read models to another path, which its last event activated."""
        self._calls.begin_path(path)
        for follower in self._followers:
            if follower.reset is None:
                self._tell(follower, path[-1:])
            else:
                follower.reset()
                self._tell(follower, path)

    @property
    def events(self) -> Sequence[Event]:
        """A snapshot of all events so far. O(1); iterating costs some µs for each event that is not in memory."""
        return self._events.so_far()

    @property
    def path(self) -> Sequence[Event]:
        """A snapshot of the events on the active path. O(the whole log) if there are branches."""
        events = self.events
        path = self._branches.path(events)
        return path if path is events else tuple(path)

    @property
    def branches(self) -> Branches:
        """The branches, to read only."""
        return self._branches

    def since(self, seq: int) -> Sequence[Event]:
        """Return the events from position `seq` on."""
        return self.events[seq:]

    def held(self) -> AbstractContextManager[None]:
        """Keep old events in memory that are read meanwhile, for work that reads the log several times."""
        return self._events.held()

    def at(self, seq: Seq) -> Event:
        """Return the event at position `seq`. Raises IndexError if there is none yet."""
        return self._events.at(seq)

    def has_call(self, tool_call_id: ToolCallId) -> bool:
        """Return whether a ToolCall of this id is on the log."""
        return self._calls.has(tool_call_id)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls without a result, in the order of the log."""
        return self._calls.open()

    def __len__(self) -> int:
        return len(self._events)


class _Calls:
    """The tool calls that `append` checks against: all ids of the log, and the open calls of the active path."""

    __slots__ = ("_known", "_open")

    def __init__(self) -> None:
        self._known: set[ToolCallId] = set()
        self._open: dict[ToolCallId, ToolCall] = {}

    def check(self, event: Event) -> str | None:
        match event:
            case ToolCall(tool_call_id=call) if call in self._known:
                return f"tool call {call} is on the log already"
            case ToolResult(tool_call_id=call) if call not in self._known:
                return f"there is no tool call {call}"
            case ToolResult(tool_call_id=call) if call not in self._open:
                return f"tool call {call} has its result already, or is not on this branch"
            case ToolResult(tool_call_id=call, parent_id=parent) if parent != self._open[call].parent_id:
                made_by = self._open[call].parent_id
                return f"tool call {call} was made by {made_by or _MODEL}, but its result names {parent or _MODEL}"
            case _:
                return None

    def apply(self, event: Event) -> None:
        match event:
            case ToolCall(tool_call_id=call) if call not in self._known:
                self._known.add(call)
                self._open[call] = event
            case ToolResult(tool_call_id=call):
                self._open.pop(call, None)
            case _:
                pass

    def begin_path(self, path: Iterable[Event]) -> None:
        """Find the open calls of this path, all of whose events were applied before."""
        known, self._known, self._open = self._known, set(), {}
        for event in path:
            self.apply(event)
        self._known = known

    def has(self, tool_call_id: ToolCallId) -> bool:
        return tool_call_id in self._known

    def open(self) -> tuple[ToolCall, ...]:
        return tuple(self._open.values())


# --- events in memory and on disk -------------------------------------------------------------------------------------


class EventList:
    """Events by their positions 0, 1, 2 ... One thread appends; any thread may read.

    Reading old events raises the StoreError of the `backing`.
    """

    def __init__(self, backing: Backing | None = None) -> None:
        self._backing = backing
        self._blocks: list[list[Event] | None] = []
        """The blocks; None for a dropped one."""
        self._length = 0
        self._dropped = 0
        """How many blocks, from the first on, were dropped."""
        self._read_block = lru_cache(_READ)(partial(_block, backing))
        self._held: dict[int, Sequence[Event]] | None = None
        """Blocks that stay in memory after they were read, by number; None unless somebody holds them."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep in memory what is read meanwhile. Whoever is inside another holder shares its events."""
        if self._held is not None:
            yield
            return
        self._held = {}
        try:
            yield
        finally:
            self._held = None

    def append(self, event: Event) -> None:
        """Add the next event."""
        self._take(event)
        if self._length % _EVERY == 0 and self._backing is not None:
            end = (self._dropped + 1) * BLOCK
            if end + NEWEST <= self._length and end <= self._backing.kept:
                # Counted first, because another thread that finds the block dropped reads as far as is counted.
                self._dropped += 1
                self._blocks[self._dropped - 1] = None

    def extend(self, events: Iterable[Event]) -> None:
        """Add events without dropping any."""
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
        """Return the event at a position. Raises IndexError if there is none yet."""
        if not 0 <= position < self._length:
            raise IndexError(f"there is no event at {position}")
        number, place = divmod(position, BLOCK)
        block = self._blocks[number]
        if block is None:
            held = self._held
            block = self._read_block(number) if held is None else self._holding(held, number)
        return block[place]

    def between(self, start: int, end: int) -> Iterator[Event]:
        """Yield the events from position `start` on and before `end`, which must exist."""
        while start < end:
            number, place = divmod(start, BLOCK)
            block = self._blocks[number]
            if block is not None:
                found = block[place : end - number * BLOCK]
            elif (held := self._held) is not None:
                found = self._holding(held, number)[place : end - number * BLOCK]
            else:
                found = self._read(start, min(end, start + _AT_ONCE, self._dropped * BLOCK))
            yield from found
            start += len(found)

    def _holding(self, held: dict[int, Sequence[Event]], number: int) -> Sequence[Event]:
        """Return a dropped block, which is then held, as are those behind it that are read with it."""
        if number not in held:
            start = number * BLOCK
            found = self._read(start, min(start + _AT_ONCE, self._dropped * BLOCK))
            for place in range(0, len(found), BLOCK):
                held[number + place // BLOCK] = found[place : place + BLOCK]
        return held[number]

    def _read(self, start: int, end: int) -> Sequence[Event]:
        assert self._backing is not None
        return self._backing.between(start, end)

    def so_far(self) -> Sequence[Event]:
        """Return a snapshot of the events so far."""
        return _SoFar(self)


def _block(backing: Backing | None, number: int) -> Sequence[Event]:
    assert backing is not None
    return backing.between(number * BLOCK, (number + 1) * BLOCK)


class _SoFar(Sequence[Event]):
    """The first events of an EventList: a tuple of them in behaviour, without its memory."""

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
    """Return a lookup for events outside an `EventLog`: a whole log or a path."""
    return {event.seq: event for event in events}.__getitem__


def event_at(at: Lookup, seq: Seq, kind: type[E]) -> E:
    """Return the event at a position where an event of that kind is known to be."""
    event = at(seq)
    assert isinstance(event, kind)
    return event
