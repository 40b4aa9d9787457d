"""Small read models: facts about a whole session, what its models have read and cost, and which payloads are ready.

`SessionFacts` and `Spending` are folds over the whole log, because they hold on every branch. `Readings`, `CurrentPlan`
and `Payloads` are folds over the active path. All of them are pure, and keep numbers and positions rather than events
where a session has many. The larger read models have modules of their own: `timeline`, `rights`, `cycles` and the View.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from ..core.ids import BlobDigest, BranchId, PayloadId, ToolCallId
from .events import UNSTAMPED, Event
from .events.conversation import AgentReasoning, AgentText, RunStop, SummaryCallEnded, ToolCall
from .events.execution import ExecutionStarted, StatementRecorded
from .events.going_back import EditBegun
from .events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, AsyncPayloadPrepared, NodesTicked, TickApplied
from .events.session import (
    DomainEntered,
    ModelCallEnded,
    OthersWrote,
    PicturesWithdrawn,
    PlanChanged,
    PlanEntry,
    ProjectionSent,
    RoundCause,
    RoundOpened,
    ServerConnected,
    ServersNamed,
    UsageReported,
)
from .statements import UpdatePayload

READING: Final = frozenset(
    (AgentText, AgentReasoning, ToolCall, RunStop, ProjectionSent, ModelCallEnded, UsageReported, EditBegun)
)
"""The kinds of event that `Readings` needs."""


class SessionFacts:
    """Facts about a session that hold whatever branch is active. `apply` takes every event of the log.

    **Authors.** `is_foreign` says that somebody other than the user wrote statements: a model, a client, or the author
    of an imported log. Their statements leave values behind that the user's statements meet later, so the whole session
    is sandboxed from then on. No rewind, load or fork takes that back; a fork inherits `OthersWrote`. Logs of earlier
    versions lack that event, so a statement that a model called has the same effect.

    **Rounds.** Nodes compare the numbers of Rounds, so no number is used twice, on any branch. Logs of earlier versions
    counted model calls and had no `RoundOpened`; the numbers that they imply count as used.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            AsyncPayloadPrepared,
            DomainEntered,
            ExecutionStarted,
            NodesTicked,
            OthersWrote,
            PicturesWithdrawn,
            RoundOpened,
            ServerConnected,
            ServersNamed,
            StatementRecorded,
            TickApplied,
            ToolCall,
            UsageReported,
        )
    )

    def __init__(self) -> None:
        self.is_foreign = False
        self.imported_at: int = UNSTAMPED
        """The position of the last import; everything up to it came from elsewhere. -1 for none."""
        self.writable: dict[str, None] = {}
        """Every directory that sandboxed statements could ever write to."""
        self.next_round = 0
        self.server_modules: dict[str, str] = {}
        """The module of each MCP server that the session ever had, by the server's name."""
        self.server_offers: dict[str, tuple[int, int]] = {}
        """How many tools and resources each server offered last, by module."""
        self.prepared_tokens = 0
        """Tokens that models took to prepare payloads."""
        self.withdrawn: set[BlobDigest] = set()
        """The contents of pictures that a provider refused."""
        self.without_pictures: set[str] = set()
        """The models whose providers answered that they take no pictures."""
        self._statements: dict[BranchId, array[int]] = {}
        self._model_calls: set[ToolCallId] = set()
        """Calls that a model made, until one of them is known to be a statement."""
        self._calls_counted = 0
        self._has_rounds = False

    def apply(self, event: Event) -> None:
        match event:
            case StatementRecorded(tool_call_id=call):
                self._statements.setdefault(event.branch_id, array("q")).append(event.seq)
                if call in self._model_calls:
                    self.is_foreign = True
                    self._model_calls.clear()
            case ToolCall(parent_id=None, typed=False, tool_call_id=call) if not self.is_foreign:
                self._model_calls.add(call)
            case OthersWrote(by=by, writable=writable):
                self.writable |= dict.fromkeys(writable)
                self.is_foreign = True
                self.imported_at = event.seq if by == "import" else self.imported_at
            case DomainEntered(held=True, writable=writable):
                self.writable |= dict.fromkeys(writable)
            case ServersNamed(modules=modules):
                self.server_modules.update(modules)
            case ServerConnected(module=module, tools=tools, resources=resources):
                self.server_offers[module] = tools, resources
            case AsyncPayloadPrepared(cost=cost):
                self.prepared_tokens += cost.tokens
            case PicturesWithdrawn(pictures=pictures, model=model):
                self.withdrawn.update(pictures)
                self.without_pictures |= set() if pictures else {model}
            case _:
                self._apply_to_rounds(event)

    def _apply_to_rounds(self, event: Event) -> None:
        match event:
            case RoundOpened(round_id=round_id):
                self._has_rounds = True
                self._use_round(round_id)
            case UsageReported() if not self._has_rounds:
                self._calls_counted += 1
                self._use_round(self._calls_counted - 1)
            case NodesTicked(round_id=round_id) | TickApplied(turn_id=round_id):
                self._use_round(round_id)
            case ExecutionStarted(round_id=int(round_id)):
                self._use_round(round_id)
            case _:
                pass

    def _use_round(self, round_id: int) -> None:
        self.next_round = max(self.next_round, round_id + 1)

    def round_opening(self, cause: RoundCause) -> RoundOpened:
        """Return the event that opens the next Round, to be appended."""
        return RoundOpened(round_id=self.next_round, cause=cause)

    def statements_below(self, branch: BranchId, bound: int) -> int:
        """Count the branch's own statements below that position of the log."""
        return bisect_left(self._statements.get(branch, ()), bound)


class Readings:
    """What a model has read: all events before position `until`, in `count` readings.

    A model has read what a call carried as soon as it begins to answer. A call that failed or was cancelled before that
    read nothing, and a look by an adapter or a command does not count. Each call leaves a `ProjectionSent`, with the
    position at which its prompt was made, and a `ModelCallEnded`, which says whether it was answered. Events after that
    position are unread. If the host dies during a call, the repair of the log ends the call: as answered if the log has
    part of the answer.

    In logs of earlier versions one event says both at the end of the call, and a `RunStop` closes a call that a crash
    left open. In still older ones each call counts, by its `UsageReported`. The statements of an edit are calls that no
    model makes.

    The tail of a prompt and the handles both use this fold, so they never disagree.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self.count = 0
        self.until = 0
        self._begun: int | None = None
        """Where the answer began, if its call has not ended."""
        self._position = 0
        """The position of the open call's prompt."""
        self._is_edit = False

    def apply(self, event: Event) -> None:
        # By kind first: a log has hundreds of thousands of events, and most are of other kinds.
        if type(event) in READING:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case EditBegun():
                self._is_edit = True
            case AgentText(aside=False) | AgentReasoning() | ToolCall(parent_id=None) if not self._is_edit:
                self._begun = event.seq if self._begun is None else self._begun
            case ProjectionSent(answered=answered, position=position):
                self._begun, self._position = None, position
                if answered:
                    self._read(position)
            case ModelCallEnded(answered=answered):
                self._begun = None
                if answered:
                    self._read(self._position)
            case UsageReported():
                self._begun = None
                self._read(event.seq)
            case RunStop():
                begun, self._begun, self._is_edit = self._begun, None, False
                if begun is not None:
                    self._read(begun)
            case _:
                pass

    def _read(self, until: int) -> None:
        self.count += 1
        self.until = max(self.until, until)


class CurrentPlan:
    """The plan of the active path."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((PlanChanged,))

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self.entries: tuple[PlanEntry, ...] = ()

    def apply(self, event: Event) -> None:
        if isinstance(event, PlanChanged):
            self.entries = event.entries


class Payloads:
    """The payloads that are prepared and not yet applied or dropped: the queue that ticks take from.

    It comes from the log, so a session that is loaded goes on with its queue. The data of payloads is in the store.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (AsyncPayloadPrepared, AsyncPayloadApplied, AsyncPayloadDropped)
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self._waiting: dict[PayloadId, AsyncPayloadPrepared] = {}

    def apply(self, event: Event) -> None:
        match event:
            case AsyncPayloadPrepared():
                self._waiting[event.payload_id] = event
            case AsyncPayloadApplied() | AsyncPayloadDropped():
                self._waiting.pop(event.payload_id, None)
            case _:
                pass

    def get(self, payload_id: PayloadId) -> AsyncPayloadPrepared | None:
        """Return the waiting payload of that id, or None."""
        return self._waiting.get(payload_id)

    @property
    def waiting(self) -> Sequence[AsyncPayloadPrepared]:
        """The waiting payloads, in the order in which they were prepared."""
        return tuple(self._waiting.values())


def payload_of(event: AsyncPayloadPrepared, data: bytes = b"") -> UpdatePayload:
    """Return the payload that the event records, with its data."""
    return UpdatePayload(
        payload_id=event.payload_id,
        obj_id=event.obj_id,
        prepared_at=event.prepared_at,
        payload_kind=event.payload_kind,
        basis=event.basis,
        payload_hash=event.payload_hash,
        data=data,
        cost=event.cost,
    )


class Spent(Struct, frozen=True):
    """What some calls took, in the provider's tokens. `dollars` are those of the calls with a known price.

    `unpriced` calls have none.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def with_call(self, call: ModelCallEnded | SummaryCallEnded) -> Spent:
        """Return the sum with another call."""
        return replace(
            self,
            calls=self.calls + 1,
            input_tokens=self.input_tokens + (call.input_tokens or 0),
            cached_tokens=self.cached_tokens + (call.cached_tokens or 0),
            output_tokens=self.output_tokens + (call.output_tokens or 0),
            dollars=self.dollars + (call.dollars or 0.0),
            unpriced=self.unpriced + (call.dollars is None),
        )


class Spending:
    """Adds up what the calls of a session took, those for summaries too. Only the log calls `apply`."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ModelCallEnded, SummaryCallEnded))

    def __init__(self) -> None:
        self._by_model: dict[str, Spent] = {}
        self.total = Spent()

    def apply(self, event: Event) -> None:
        if isinstance(event, ModelCallEnded | SummaryCallEnded):
            self.total = self.total.with_call(event)
            self._by_model[event.model] = self._by_model.get(event.model, Spent()).with_call(event)

    @property
    def by_model(self) -> Mapping[str, Spent]:
        """What each model took; "" stands for calls of earlier versions, which did not name theirs."""
        return self._by_model
