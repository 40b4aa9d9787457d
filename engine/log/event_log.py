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

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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


# event log:
# The session's log: append-only, closed, the single source of everything a session knows about itself.
#
# `append` is the only writer. It checks, stamps, keeps and hands on, all in memory; the journal behind it makes
# events durable. Read models are folds over the log and cannot be changed by anybody else: over the whole of it, or
# over the path of the active branch. One that follows for good keeps positions, because what it kept of events would
# grow with the session, and asks `at` when it is asked itself: never while it is told of an event, because old ones
# are read (`event_list`), and where that fails it would stay behind the log. Must not know what the events mean to a
# transport.

_MODEL: Final = "the model"
_ID_DIGITS: Final = 15
"""Of a number that is counted on from; an imported log may have any ids."""
Fold = Callable[[Event], None]
"""How a read model is told of every event, in order, exactly once."""


class PathFold(Protocol):
    """A read model of the active path alone. Told of the same events it is the same, reset before or not."""

    def apply(self, event: Event) -> None:
        """Takes the next event of the path."""
        ...

    def reset(self) -> None:
        """Forgets everything: another path is active, and follows from its first event on."""
        ...


class _Follower(NamedTuple):
    """A read model: whom to tell, of which kinds, and how to reset one that follows the path; see `EventLog.follow`."""

    fold: Fold
    kinds: Collection[type[Event]] | None = None
    reset: Callable[[], None] | None = None


class _Calls:
    """Which tool calls are open or answered: the part of the log's history that `append` needs for its checks.

    An id names one call of the whole log, and what is open is so on the active path.
    """

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
                return f"tool call {call} was made by {made_by or _MODEL}, its result says by {parent or _MODEL}"
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
        """Has those be open that are so on this path, all of whose events were applied before."""
        known, self._known, self._open = self._known, set(), {}
        for event in path:
            self.apply(event)
        self._known = known

    def has(self, tool_call_id: ToolCallId) -> bool:
        return tool_call_id in self._known

    def open(self) -> tuple[ToolCall, ...]:
        return tuple(self._open.values())


class EventLog:
    """An append-only sequence of stamped events with the folds over it.

    Args:
        clock: stamps `at`.
        journal: receives every appended event, in order, to make it durable; must not block. What it raises (the
            session is read-only) leaves the log as it was.
        folds: read models, told of each event before `append` returns.
        redact: takes secrets out of an event before it is appended.
        check: what else refuses an event (the View's rules for condensations); returns a reason or None.
        backing: where what the journal has made durable is read again. Without it all events stay in memory; with it
            whoever asks for old ones gets its StoreError.
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
        self._all: list[_Follower] = [_Follower(fold) for fold in folds]
        self._told: dict[type[Event], tuple[Fold, ...]] = {}
        """Who is to be told of a kind of event."""
        self._check = check
        self._redact = redact
        self._calls = _Calls()
        self._events = EventList(backing)
        self._branches = Branches()
        self._number = 0
        """Of the id of the next event."""

    def append(self, event: Event) -> Seq:
        """Stamps the event, keeps it and hands it on. Returns its position.

        Raises:
            InvalidEventError: the event can never be right on this log; nothing was written.
            StoreError: the head moves, and the path that it moves to cannot be read; nothing was written.
        """
        if event.seq != UNSTAMPED:
            raise InvalidEventError(event.kind, "it is on a log already")
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
        """What ids count on from behind the last event, which has the highest number, also of a path that was taken."""
        last = self._events.at(len(self._events) - 1).event_id[1:] if self._events else ""
        is_number = last.isascii() and last.isdigit() and len(last) <= _ID_DIGITS
        return max(int(last) + 1 if is_number else 0, len(self._events))

    def redacted(self, event: Event) -> Event:
        """The event as it would be on the log, without the stamp: its secrets taken out."""
        return event if self._redact is None else self._redact(event)

    def load(self, events: Iterable[Event]) -> None:
        """Takes stamped events that are durable elsewhere already. Lenient: whatever they are, folds cope with them.

        The path that is active at their end is found first, so that who follows it hears of no other.

        Raises:
            InvalidEventError: this log has events, or their positions are not 0, 1, 2 ...
        """
        if self._events:
            raise InvalidEventError("load", "only an empty log can be loaded")
        branches, loaded = self._branches, list[Event]()
        for position, event in enumerate(events):
            if event.seq != position:
                raise InvalidEventError(event.kind, f"position {event.seq} where {position} was due")
            loaded.append(event)
            # Asked here, because of hundreds of thousands of events hardly one says anything of branches.
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
        """Tells one more read model of every event there is, and from now on of each that comes, whatever its branch.

        One that says which `kinds` it follows is told of no other: most events are nothing to most read models, and
        whoever appends one waits until all were told.
        """
        self._begin(_Follower(fold, kinds))

    def follow_path(self, fold: PathFold, kinds: Collection[type[Event]] | None = None) -> None:
        """The same with the events of the active path alone; when the head moves, it is reset and told the other one.

        It stays the same object, so whoever holds it need not know of branches.
        """
        self._begin(_Follower(fold.apply, kinds, fold.reset))

    def _begin(self, follower: _Follower) -> None:
        self._tell(follower, self.events if follower.reset is None else self.path)
        self._all.append(follower)
        self._told.clear()

    @staticmethod
    def _tell(follower: _Follower, events: Iterable[Event]) -> None:
        fold, kinds, _ = follower
        for event in events:
            if kinds is None or type(event) in kinds:
                fold(event)

    def _followers_of(self, kind: type[Event]) -> tuple[Fold, ...]:
        found = self._told.get(kind)
        if found is None:
            found = tuple(fold for fold, kinds, _ in self._all if kinds is None or kind in kinds)
            self._told[kind] = found
        return found

    def _beside_the_path(self, kind: type[Event]) -> Sequence[Fold]:
        """Who is told of an event that the active path does not have."""
        return [fold for fold, kinds, reset in self._all if reset is None and (kinds is None or kind in kinds)]

    def _move(self, path: Sequence[Event]) -> None:
        """Another path is active since the last event of this one."""
        self._calls.begin_path(path)
        for follower in self._all:
            if follower.reset is None:
                self._tell(follower, path[-1:])
            else:
                follower.reset()
                self._tell(follower, path)

    @property
    def events(self) -> Sequence[Event]:
        """Everything so far; a snapshot that later appends do not change. O(1), and to go through it costs some µs for
        each event that is not among the newest."""
        return self._events.so_far()

    @property
    def path(self) -> Sequence[Event]:
        """Those of the active branch: what it shares with others, and its own. A snapshot too; where there are
        branches O(the whole log)."""
        events = self.events
        path = self._branches.path(events)
        return path if path is events else tuple(path)

    @property
    def branches(self) -> Branches:
        """The branches there are; to read."""
        return self._branches

    def since(self, seq: int) -> Sequence[Event]:
        """The events from position `seq` on."""
        return self.events[seq:]

    def at(self, seq: Seq) -> Event:
        """The event at position `seq`, as it was taken. Raises IndexError where there is none yet."""
        return self._events.at(seq)

    def has_call(self, tool_call_id: ToolCallId) -> bool:
        """Whether a ToolCall of this id is on the log."""
        return self._calls.has(tool_call_id)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls that have no result, in the order of their calls."""
        return self._calls.open()

    def __len__(self) -> int:
        return len(self._events)
