"""Request cycles as a read model: a fold of the log into cycles, a queue and anomalies, one event at a time.

A cycle is one request with everything that follows from it: it opens with a root message and closes with the next
run-stop. Whether a message is a root depends on what was going on when it came. So each event is first translated, by
its own fields and the ids seen so far, into one of a few inputs. The table in `machine` maps state and input to the
next state and an action, and the methods here carry out the action. Thus each event has one meaning, and translation
and table can be read and tested apart.

The fold is total: a log may come from another program, or from a process that died anywhere. What should not have
happened is handled in the least surprising way and noted as an anomaly. Nothing that was said, called or answered is
dropped: each is in a cycle, in the queue, withdrawn, or a stray.

One event may take two steps. A run-stop closes a cycle, and if a followUp whose message is on the log heads the queue,
that message opens the next one. The log has no event for this moment, so after each event the fold feeds itself
PROMOTION if such a message heads the queue; during a run that changes nothing. A step is O(1) but for the queue, which
is short. Only a late result changes a closed cycle. Closed cycles are kept as positions, because a session has one for
each statement and keeps them for good.

Must not know why an action follows (`machine`) nor how a cycle is shown (`views`). Fed by the log, or by a caller that
reads one, with the events of the active path.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ...core.ids import MessageId, Seq, ToolCallId
from ..event_log import Lookup, event_at, lookup_in
from ..events import Event
from ..events.conversation import AgentReasoning, AgentText, PromptKind, RunStop, ToolCall, ToolResult, UserMessage
from ..events.execution import ExecutionStarted, StatementRecorded
from ..events.going_back import HeadMoved
from ..events.session import PromptQueued, PromptWithdrawn
from .machine import (
    TRANSITIONS,
    Action,
    Anomaly,
    AnomalyKind,
    Cycles,
    FollowUps,
    Input,
    Item,
    RequestCycle,
    RootKind,
    State,
    Transition,
    Withdrawn,
)
from .views import CycleSummary, summary_of

_MESSAGES: Final[dict[PromptKind, tuple[Input, Input]]] = {
    "direct": (Input.DIRECT, Input.QUEUED_DIRECT),
    "steer": (Input.STEER, Input.QUEUED_STEER),
    "follow_up": (Input.FOLLOW_UP, Input.QUEUED_FOLLOW_UP),
}
"""By a message's own kind: its input if it was not announced, and if it was."""


class _Call(Struct):
    cycle: int | None
    answered: bool = False


class CycleFold:
    """The request cycles of a log, whose events `at` finds. `apply` is for the log alone; reading is always allowed."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((
        UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult, RunStop, PromptQueued, PromptWithdrawn,
        StatementRecorded, ExecutionStarted, HeadMoved,
    ))  # fmt: skip

    def __init__(self, at: Lookup, transitions: Mapping[tuple[State, Input], Transition] = TRANSITIONS) -> None:
        self._at = at
        self._transitions = transitions
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self._state = State.IDLE
        self._closed = _EndedCycles()
        self._open: RequestCycle | None = None
        self._items: list[Item] = []
        self._queue = FollowUps()
        self._spent: set[MessageId] = set()
        self._messages: set[MessageId] = set()
        self._calls: dict[ToolCallId, _Call] = {}
        self._statements: set[ToolCallId] = set()
        """The active cycle's statement calls that no model made."""
        self._withdrawn: list[Withdrawn] = []
        self._left: set[MessageId] = set()
        """The withdrawn messages that a move of the head left behind."""
        self._strays: list[Item] = []
        self._anomalies: list[Anomaly] = []

    def apply(self, event: Event) -> None:
        """Take the next event of the path. Never raises; kinds that do not concern cycles change nothing."""
        seen_as = self._input(event)
        if seen_as is None:
            if isinstance(event, StatementRecorded) and self._open is not None:
                # A statement that no model called, such as a cell from outside a turn, is a parent of calls, too.
                self._statements.add(event.tool_call_id)
            elif isinstance(event, ExecutionStarted) and event.mode is not None and self._open is not None:
                # A re-run is a call by itself, with the id of its execution.
                self._statements.add(event.rerun_call)
            elif isinstance(event, HeadMoved):
                self._leave_queue()
            return
        closed = len(self._closed)
        self._step(seen_as, event)
        head = self._queue.head
        if head is not None and head.message is not None:
            self._step(Input.PROMOTION, head.message)
        if len(self._closed) > closed and self._queue.waiting:
            self._closed.waiting[closed] = len(self._queue.waiting)

    def ended_by(self, seq: int) -> CycleSummary | None:
        """Return the summary of the cycle that the RunStop at `seq` ended, or None."""
        place = self._closed.place(seq)
        if place is None:
            return None
        return summary_of(self._closed.cycle(place, self._at), queued=self._closed.waiting.get(place, 0))

    @property
    def active(self) -> RequestCycle | None:
        """The cycle of the current run as it is now; None between runs."""
        return None if self._open is None else replace(self._open, items=tuple(self._items))

    @property
    def model(self) -> Cycles:
        """A snapshot of everything. O(the path)."""
        active = self.active
        return Cycles(
            active=self._state is State.ACTIVE,
            cycles=(*self._closed.cycles(self._at), *(() if active is None else (active,))),
            queue=tuple(self._queue.waiting),
            withdrawn=tuple(self._withdrawn),
            strays=tuple(self._strays),
            anomalies=tuple(self._anomalies),
        )

    def _input(self, event: Event) -> Input | None:
        match event:
            case UserMessage(message_id=message_id, prompt_kind=kind):
                return _MESSAGES[kind][self._queue.announced(message_id)]
            case AgentText() | AgentReasoning() | ToolCall():
                return Input.OUTPUT
            case ToolResult():
                return Input.RESULT
            case RunStop():
                return Input.RUN_STOP
            case PromptQueued(message_id=message_id):
                return Input.PROMPT_REQUEUED if self._is_known(message_id) else Input.PROMPT_QUEUED
            case PromptWithdrawn(message_id=message_id) if self._queue.holds(message_id):
                return Input.WITHDRAWN
            case PromptWithdrawn(message_id=message_id):
                return Input.WITHDRAWN_SPENT if self._is_known(message_id) else Input.WITHDRAWN_UNSEEN
            case _:
                return None

    def _leave_queue(self) -> None:
        """Empty the queue when the head moves. Prompts that still wait are then announced again."""
        while (head := self._queue.head) is not None:
            self._withdrawn.append(Withdrawn(head.message_id, self._queue.take(head.message_id).text))
            self._messages.discard(head.message_id)
            self._left.add(head.message_id)

    def _is_known(self, message_id: MessageId) -> bool:
        return message_id in self._messages or message_id in self._spent or self._queue.announced(message_id)

    def _step(self, seen_as: Input, event: Event) -> None:
        transition = self._transitions[self._state, seen_as]
        if transition.anomaly is not None:
            self._note(transition.anomaly, event)
        if isinstance(event, UserMessage) and seen_as is not Input.PROMOTION:
            self._note_message(event)
        _ACTIONS[transition.action](self, event)
        self._state = transition.then

    def _note(self, kind: AnomalyKind, event: Event) -> None:
        match event:
            case UserMessage() | AgentText() | AgentReasoning() | PromptQueued() | PromptWithdrawn():
                subject: str = event.message_id
            case ToolCall() | ToolResult():
                subject = event.tool_call_id
            case _:
                subject = ""
        self._anomalies.append(Anomaly(kind, event.seq, subject))

    def _note_message(self, message: UserMessage) -> None:
        if message.message_id in self._messages:
            self._note("duplicate-message", message)
        self._messages.add(message.message_id)

    def _open_direct(self, event: Event) -> None:
        assert isinstance(event, UserMessage)
        head = self._queue.head
        if head is not None and head.since < len(self._closed):
            self._note("queue-jumped", event)
        self._begin(event, "direct")

    def _open_queued(self, event: Event) -> None:
        assert isinstance(event, UserMessage)
        head = self._queue.head
        if head is not None and head.message_id != event.message_id:
            self._note("promoted-out-of-order", event)
        self._queue.take(event.message_id)
        self._begin(event, "followUp")

    def _begin(self, root: UserMessage, kind: RootKind) -> None:
        self._open = RequestCycle(len(self._closed) + 1, root, kind)
        self._items = []

    def _place(self, event: Event) -> None:
        assert isinstance(event, (AgentText, AgentReasoning, ToolCall))
        if isinstance(event, ToolCall):
            self._register(event, len(self._closed))
        self._items.append(event)

    def _stray(self, event: Event) -> None:
        assert isinstance(event, (AgentText, AgentReasoning, ToolCall))
        if isinstance(event, ToolCall):
            self._register(event, None)
        self._strays.append(event)

    def _register(self, call: ToolCall, cycle: int | None) -> None:
        if call.parent_id is not None and not self._has_parent(call.parent_id, cycle):
            self._note("unknown-parent", call)
        if call.tool_call_id in self._calls:
            self._note("duplicate-call", call)
        self._calls[call.tool_call_id] = _Call(cycle)

    def _has_parent(self, parent_id: ToolCallId, cycle: int | None) -> bool:
        """Return whether the parent is in that cycle, which is the active one, or is a stray, too (None)."""
        if parent_id in self._calls and self._calls[parent_id].cycle == cycle:
            return True
        return cycle is not None and parent_id in self._statements

    def _steer(self, event: Event) -> None:
        assert isinstance(event, UserMessage)
        if self._queue.announced(event.message_id):
            self._queue.take(event.message_id)
        self._items.append(event)

    def _enqueue(self, event: Event) -> None:
        assert isinstance(event, UserMessage)
        self._queue.enqueue(event, len(self._closed))

    def _announce(self, event: Event) -> None:
        assert isinstance(event, PromptQueued)
        if event.message_id in self._left:
            self._left.discard(event.message_id)
            self._withdrawn = [each for each in self._withdrawn if each.message_id != event.message_id]
        self._queue.announce(event.message_id, event.text, len(self._closed))

    def _withdraw(self, event: Event) -> None:
        assert isinstance(event, PromptWithdrawn)
        self._spend(event.message_id, self._queue.take(event.message_id).text)

    def _note_withdrawn(self, event: Event) -> None:
        assert isinstance(event, PromptWithdrawn)
        self._spend(event.message_id, None)

    def _spend(self, message_id: MessageId, text: str | None) -> None:
        self._spent.add(message_id)
        self._withdrawn.append(Withdrawn(message_id, text))

    def _answer(self, event: Event) -> None:
        assert isinstance(event, ToolResult)
        call = self._calls.get(event.tool_call_id)
        if call is None or call.answered:
            self._note("result-without-call" if call is None else "second-result", event)
            self._strays.append(event)
            return
        call.answered = True
        if call.cycle is None:
            self._strays.append(event)
        elif self._open is not None and call.cycle == len(self._closed):
            self._items.append(event)
        else:
            self._note("late-result", event)
            self._closed.answer(call.cycle, event)

    def _close(self, event: Event) -> None:
        assert isinstance(event, RunStop)
        assert self._open is not None
        self._closed.append(self._open, self._items, event)
        self._open, self._items = None, []
        self._statements.clear()

    def _ignore(self, event: Event) -> None:
        return None


# The table names methods that are private to the fold.
# pyright: reportPrivateUsage=false
_ACTIONS: Final[dict[Action, Callable[[CycleFold, Event], None]]] = {
    Action.OPEN_DIRECT: CycleFold._open_direct,
    Action.OPEN_QUEUED: CycleFold._open_queued,
    Action.PLACE: CycleFold._place,
    Action.STEER: CycleFold._steer,
    Action.ENQUEUE: CycleFold._enqueue,
    Action.ANNOUNCE: CycleFold._announce,
    Action.WITHDRAW: CycleFold._withdraw,
    Action.NOTE_WITHDRAWN: CycleFold._note_withdrawn,
    Action.ANSWER: CycleFold._answer,
    Action.STRAY: CycleFold._stray,
    Action.CLOSE: CycleFold._close,
    Action.IGNORE: CycleFold._ignore,
}


def cycles_of(events: Iterable[Event]) -> Cycles:
    """Return the cycles of a whole log or a path."""
    events = list(events)
    fold = CycleFold(lookup_in(events))
    for event in events:
        fold.apply(event)
    return fold.model


class _EndedCycles:
    """Closed cycles as positions. The place of a cycle is its number less one.

    Most have no items, because they are statements from outside a turn, so items are kept apart. `waiting` is how many
    prompts were queued when a cycle ended, if any were.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        self._roots = array("q")
        self._stops = array("q")
        self._queued: set[int] = set()
        """The cycles whose root had waited in the queue."""
        self._items: dict[int, tuple[Seq, ...]] = {}
        self._late: dict[int, tuple[Seq, ...]] = {}

    def __len__(self) -> int:
        return len(self._stops)

    def append(self, cycle: RequestCycle, items: Iterable[Item], stop: RunStop) -> None:
        """Add the cycle that ends with `stop`."""
        place = len(self)
        self._roots.append(cycle.root.seq)
        self._stops.append(stop.seq)
        if cycle.root_kind == "followUp":
            self._queued.add(place)
        if found := tuple(item.seq for item in items):
            self._items[place] = found

    def cycle(self, place: int, at: Lookup) -> RequestCycle:
        """Return the cycle at that place, with its events."""
        return RequestCycle(
            number=place + 1,
            root=event_at(at, Seq(self._roots[place]), UserMessage),
            root_kind="followUp" if place in self._queued else "direct",
            items=tuple(cast("Item", at(seq)) for seq in self._items.get(place, ())),
            stop=event_at(at, Seq(self._stops[place]), RunStop),
            late=tuple(event_at(at, seq, ToolResult) for seq in self._late.get(place, ())),
        )

    def cycles(self, at: Lookup) -> Iterator[RequestCycle]:
        """Yield all cycles."""
        return (self.cycle(place, at) for place in range(len(self)))

    def place(self, stop: int) -> int | None:
        """Return the place of the cycle that the RunStop at that position ended, or None."""
        place = bisect_left(self._stops, stop)
        return place if place < len(self) and self._stops[place] == stop else None

    def answer(self, place: int, result: ToolResult) -> None:
        """Add a late result of one of the cycle's calls."""
        self._late[place] = (*self._late.get(place, ()), result.seq)
