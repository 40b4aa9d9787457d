"""The session's log: append-only, closed, the single source of everything a session knows about itself.

`append` is the only writer. It checks, stamps, keeps and hands on, all in memory; the journal behind it makes events
durable. Read models are folds over the log and cannot be changed by anybody else: over the whole of it, or over the
path of the active branch. One that follows for good keeps positions, because what it kept of events would grow with the
session, and asks `at` when it is asked itself: never while it is told of an event, because old ones are read
(`event_list`), and where that fails it would stay behind the log. Must not know what the events mean to a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from ..core.clock import Clock
from ..core.errors import InvalidEventError
from ..core.ids import EventId, Seq, ToolCallId
from .branches import Branches
from .event_list import Backing, EventList
from .events import UNSTAMPED, BranchEvent, Event
from .events.branches import BranchCreated, HeadMoved
from .events.conversation import ToolCall, ToolResult

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
