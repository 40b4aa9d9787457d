"""The plan of a replay: that of a rebuild, in which somebody looks at what comes of some statements.

Pure. Used by `sessions.replaying`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.execution import INTERRUPTED, NOT_RUN, WORKER_DIED
from ..core.ids import ExecutionId, PayloadId, StatementId, ToolCallId
from ..core.toolbox import call_title
from .comparison import bound_names, ending_of
from .events import UNSTAMPED, Event
from .events.conversation import ToolCall
from .events.execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    StatementOmitted,
    StatementRecorded,
)
from .events.going_back import ReplayBegun, ReplayEnded
from .events.nodes import (
    AdoptedContent,
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    ContentsAdopted,
    NodesTicked,
    OutlineMade,
    OutlineTier,
    RevisionAdopted,
    StatementTicked,
    seen_in,
)
from .events.session import EnvironmentRestored
from .facts import READING, Readings
from .past import (
    NOT_ALLOWED,
    KeptValues,
    PastAnswer,
    PastExecution,
    PastLooks,
    PastPayload,
    PastQuestion,
    PastRevision,
    PastStep,
    PastTick,
    Rebuild,
    RestorePlan,
)
from .statements import RunRequest, UpdatePayload


def observed_steps(plan: RestorePlan, first: int, last: int) -> Sequence[PastExecution]:
    """The executions of the statements `first` to `last` that a rebuild would run again."""
    return [step for step in plan.steps if _is_observed(step, first, last)]


def observing(plan: RestorePlan, first: int, last: int, *, answers: bool) -> RestorePlan:
    """The plan, in which the outcome of each of these goes to whoever compares, and none of them is left out.

    Without `answers` they are given none of those that are recorded.
    """
    places = [place for place, step in enumerate(plan.steps) if _is_observed(step, first, last)]
    steps = list(plan.steps)
    for place in places:
        step = steps[place]
        assert isinstance(step, PastExecution)
        steps[place] = replace(step, record=None, answers=step.answers if answers else ())
    return replace(plan, steps=tuple(steps), whole_from=places[0] if places else None)


def _is_observed(step: PastStep, first: int, last: int) -> TypeGuard[PastExecution]:
    return isinstance(step, PastExecution) and step.again and first <= step.request.index <= last


# payloads:
# What was prepared and has not come to an end, as a fold over a path: the queue of payloads that ticks take from.
#
# Since it is the log that says what is ready, a session that is loaded again goes on with it. Must not know how
# anything is prepared, nor hold data: that is in the store. Followed by the log; read by the preparer, and by
# `replay`, which needs of each tick what it was given.


class Payloads:
    """The payloads that wait. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (AsyncPayloadPrepared, AsyncPayloadApplied, AsyncPayloadDropped)
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
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
        """The payload of that id, if it waits."""
        return self._waiting.get(payload_id)

    @property
    def waiting(self) -> Sequence[AsyncPayloadPrepared]:
        """In the order in which they were prepared."""
        return tuple(self._waiting.values())


class PreparedTokens:
    """Those that models have taken for all that was ever prepared, on whatever branch. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((AsyncPayloadPrepared,))

    def __init__(self) -> None:
        self.taken = 0

    def apply(self, event: Event) -> None:
        if isinstance(event, AsyncPayloadPrepared):
            self.taken += event.cost.tokens


def payload_of(event: AsyncPayloadPrepared, data: bytes = b"") -> UpdatePayload:
    """The payload that the event tells of, with its data."""
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


# past steps:
# What the log says of one step of a history, and the step as a plan has it.
#
# Pure; must not know the order of steps, nor which of them belong to a plan. Used by `replay`.

ExecutionPart = EffectRequested | EffectAnswered | ExecutionFinished | StatementTicked
"""What the log says of an execution, by its id."""
_STALE: Final = "its copy is from before an earlier statement ran again"
_FEWER_RIGHTS: Final = "had fewer rights than statements have now, so it was not run again"
_NOTHING_LEFT: Final = (WORKER_DIED, NOT_RUN, INTERRUPTED)


class ExecutionStep(Struct):
    """A statement with its latest execution. `reads` says how often a model had read before it."""

    statement: StatementRecorded
    started: ExecutionStarted | None = None
    finished: ExecutionFinished | None = None
    calls: dict[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    questions: dict[int, EffectRequested] = field(default_factory=dict[int, EffectRequested])
    answers: list[EffectAnswered] = field(default_factory=list[EffectAnswered])
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    ticks: list[float] = field(default_factory=list[float])
    is_omitted: bool = False
    without: frozenset[int] = frozenset()
    """The numbers of the earlier statements that were left out when it ran."""
    is_stale: bool = False
    """Its values were kept before an earlier statement ran again, with another outcome."""
    reads: int = 0

    def take(self, event: ExecutionPart) -> None:
        """Adds what the log says of the execution."""
        match event:
            case EffectRequested():
                self.questions[event.ordinal] = event
            case EffectAnswered():
                self.answers.append(event)
            case ExecutionFinished():
                self.finished = event
            case StatementTicked():
                self.ticks.append(event.now)

    @property
    def position(self) -> int:
        """That of the beginning of the execution on the log; -1 where there was none."""
        return UNSTAMPED if self.started is None else self.started.seq

    @property
    def leaves_anything(self) -> bool:
        """Whether it is in a plan."""
        return self.finished is not None and not self.is_omitted and not _left_nothing(self.finished)

    def was_cut_off(self, since: int) -> bool:
        """Whether the whole program ended while it ran, which its log was told behind the position `since`."""
        finished = self.finished
        if finished is None or finished.exception is None or self.is_omitted:
            return False
        return finished.exception.type == INTERRUPTED and finished.seq > since

    def past(
        self, reads: int, time_limit: float, values: KeptValues, *, is_allowed: bool = True
    ) -> PastExecution | None:
        """The step of a plan; None where it left nothing, or was left out.

        `reads` is how often a model had read before the step ahead of it. The statement may take `time_limit` seconds.
        One that is not allowed to does not run again, and no copy of what it left is loaded, which would run it too.
        """
        started, finished = self.started, self.finished
        if started is None or finished is None or not self.leaves_anything:
            return None
        bound = tuple(bound_names(finished.diff))
        return PastExecution(
            request=RunRequest(
                execution_id=finished.execution_id,
                label=self.statement.label,
                source=self.statement.source,
                index=self.statement.index,
                round_id=started.round_id or 0,
                time_limit=time_limit,
                plan=bool(started.plan),
                answered=started.answered,
            ),
            status=finished.status,
            again=is_allowed and finished.status in ("ok", "error") and not self.statement.withheld,
            answers=tuple(self._answer(answer) for answer in sorted(self.answers, key=lambda each: each.ordinal)),
            revisions=None if started.round_id is None else tuple(map(past_revision, self.revisions)),
            bound=bound,
            unbound=finished.diff.deleted,
            kept=() if self.is_stale or not is_allowed else values.groups(finished.execution_id),
            unkept=self._unkept(bound, values.unkept(finished.execution_id), is_allowed),
            hindrance="" if is_allowed else _FEWER_RIGHTS,
            after_reading=self.reads > reads,
            ticks=tuple(self.ticks),
            record=ending_of(finished),
            acted=finished.acted,
        )

    def _unkept(self, bound: Iterable[str], unkept: dict[str, str], is_allowed: bool) -> dict[str, str]:
        if not is_allowed:
            return dict.fromkeys(bound, NOT_ALLOWED)
        return dict.fromkeys(bound, _STALE) if self.is_stale else unkept

    def _answer(self, event: EffectAnswered) -> PastAnswer:
        asked = self.questions.get(event.ordinal)
        question = None
        if asked is not None:
            call = None if asked.tool_call_id is None else self.calls.get(asked.tool_call_id)
            question = PastQuestion(
                ordinal=event.ordinal,
                operation=asked.operation,
                argument_digest=asked.argument_digest,
                title="" if call is None else call_title(call.tool, call.arguments),
            )
        return PastAnswer(
            content=event.result,
            error=event.error,
            withheld=bool(event.withheld),
            question=question,
            path=event.path,
            digest=event.digest,
        )


class TickStep(Struct):
    """A tick. `payloads` are those that came to an end in it; `reads` as in `ExecutionStep`."""

    ticked: NodesTicked
    reads: int
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    payloads: list[AsyncPayloadPrepared] = field(default_factory=list[AsyncPayloadPrepared])

    def past(self, reads: int) -> PastTick:
        """The step of a plan; `reads` as in `ExecutionStep.past`."""
        return PastTick(
            round_id=self.ticked.round_id,
            now=self.ticked.now,
            revisions=tuple(map(past_revision, self.revisions)),
            payloads=tuple(
                PastPayload(payload=payload_of(each), content=each.data)
                for each in sorted(self.payloads, key=lambda each: each.seq)
            ),
            after_reading=self.reads > reads,
        )


def past_revision(event: RevisionAdopted | AdoptedContent) -> PastRevision:
    """A look at a file as a plan has it."""
    return PastRevision(
        path=event.path,
        look=event.look,
        state=event.state,
        digest=event.digest,
        size=event.size,
        notice=event.notice,
        content=event.content,
        withheld=bool(event.withheld),
    )


def _left_nothing(finished: ExecutionFinished) -> bool:
    return finished.exception is not None and finished.exception.type in _NOTHING_LEFT


# replay:
# How a namespace came about, as a fold over the log: the plan by which it is rebuilt.
#
# Executions and ticks in the order of the path, each with what it then saw. An execution that ended by itself runs
# again. One that was stopped does not, nor one whose source held a secret: what it left comes from kept values. One
# that ended its worker left nothing, and one that the user left out is not in the plan. Pure: names contents by their
# digests. Must not know how a plan is carried out. Made of the log when a namespace is rebuilt, because it would keep
# most of the log's events; `session.live_environment` does both.
#
# What a recorded or a dry replay has found is a report, and no part of it. From the beginning of a live replay on,
# the steps of the statements that run again are set aside, and so is what came after those: new ones join what stands
# before them. When it has completed, the statements behind its last one follow again, without the values that were
# kept of them, and with the ticks around them; at any other end everything is as it was. A little over 300 lines,
# because a fold and its plan stand side by side.

_OF_STEPS: Final = frozenset(
    (
        StatementRecorded,
        ExecutionStarted,
        EffectRequested,
        EffectAnswered,
        ExecutionFinished,
        StatementTicked,
        StatementOmitted,
        ToolCall,
        EnvironmentRestored,
        ReplayBegun,
        ReplayEnded,
        AsyncPayloadPrepared,
        AsyncPayloadApplied,
        AsyncPayloadDropped,
        NodesTicked,
        RevisionAdopted,
        ContentsAdopted,
        OutlineMade,
    )
)
"""The kinds of event that say something about steps; most events of a long log do not."""


_FOLLOWED: Final = _OF_STEPS | READING
_Step = ExecutionStep | TickStep | Rebuild


def _everything(_position: int) -> bool:
    return True


class _LiveReplay(Struct):
    """What there was before it, and of that the steps from its first statement on which have not been passed yet."""

    last: int
    steps: list[_Step]
    statements: dict[StatementId, ExecutionStep]
    aside: deque[_Step]


class History:
    """What a rebuild goes through. `apply` takes the events of a path, that of `values` those of its whole log."""

    def __init__(self) -> None:
        self.values = KeptValues()
        self._steps: list[_Step] = []
        self._statements: dict[StatementId, ExecutionStep] = {}
        self._omitted: dict[StatementId, ExecutionStep] = {}
        self._by_execution: dict[ExecutionId, ExecutionStep] = {}
        self._present: ExecutionStep | TickStep | None = None
        self._readings = Readings()
        self._tiers: dict[str, OutlineTier] = {}
        self._payloads = Payloads()
        self._replay: _LiveReplay | None = None
        self._rebuilt = UNSTAMPED
        """The position of the latest rebuild on the log."""

    @classmethod
    def of(cls, events: Iterable[Event], is_on_path: Callable[[Event], bool]) -> History:
        """That of the active path of a whole log. O(the log)."""
        history = cls()
        for event in events:
            kind = type(event)
            if kind in KeptValues.FOLLOWS:
                history.values.apply(event)
            elif kind in _FOLLOWED and is_on_path(event):
                history.apply(event)
        return history

    def apply(self, event: Event) -> None:
        self._readings.apply(event)
        if type(event) in _OF_STEPS:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case StatementRecorded(statement_id=statement_id):
                self._statements[statement_id] = ExecutionStep(event)
                self._steps.append(self._statements[statement_id])
            case ExecutionStarted():
                self._start(event)
            case EffectRequested() | EffectAnswered() | ExecutionFinished() | StatementTicked():
                step = self._by_execution.get(event.execution_id)
                if step is not None:
                    step.take(event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted):
                if statement_id in self._statements:
                    self._omit(statement_id, omitted)
            case ToolCall(parent_id=str()) if isinstance(self._present, ExecutionStep):
                self._present.calls[event.tool_call_id] = event
            case ReplayBegun() | ReplayEnded():
                self._apply_to_replay(event)
            case _:
                self._apply_to_nodes(event)

    def _apply_to_nodes(self, event: Event) -> None:
        match event:
            case EnvironmentRestored(seq=seq, anew=anew, absent=absent):
                self._rebuilt = seq
                if anew or absent:
                    self._note_rebuild(event)
            case AsyncPayloadPrepared():
                self._payloads.apply(event)
            case AsyncPayloadApplied() | AsyncPayloadDropped():
                self._end_payload(event)
            case NodesTicked():
                self._present = TickStep(event, self.reads)
                self._steps.append(self._present)
            case RevisionAdopted() | ContentsAdopted() if self._present is not None:
                self._present.revisions += seen_in(event)
            case OutlineMade(digest=digest, tier=tier):
                self._tiers[digest] = tier
            case _:
                pass

    def _note_rebuild(self, event: EnvironmentRestored) -> None:
        """A statement that waits for the namespace is on the log already, and finds what the rebuild has left."""
        place = len(self._steps)
        while place and isinstance(step := self._steps[place - 1], ExecutionStep) and step.finished is None:
            place -= 1
        self._steps.insert(place, Rebuild(event))

    def _end_payload(self, event: AsyncPayloadApplied | AsyncPayloadDropped) -> None:
        prepared, tick = self._payloads.get(event.payload_id), self._present
        self._payloads.apply(event)
        if prepared is not None and isinstance(tick, TickStep) and event.turn_id == tick.ticked.round_id:
            tick.payloads.append(prepared)

    def _omit(self, statement_id: StatementId, omitted: bool) -> None:
        step = self._statements[statement_id]
        step.is_omitted = omitted
        if omitted:
            self._omitted[statement_id] = step
        else:
            self._omitted.pop(statement_id, None)

    def _start(self, event: ExecutionStarted) -> None:
        if not event.counts:
            return
        step = self._statements.get(event.statement_id)
        if step is not None and self._replay is not None:
            self._pass(self._replay, step.statement.index)
            step = self._statements[event.statement_id] = ExecutionStep(step.statement)
            self._steps.append(step)
        self._present = step
        if step is None:
            return
        step.started, step.finished, step.reads = event, None, self.reads
        step.without = self._left_out_before(step)
        step.calls, step.questions, step.answers, step.revisions, step.ticks = {}, {}, [], [], []
        self._by_execution[event.execution_id] = step

    def _apply_to_replay(self, event: ReplayBegun | ReplayEnded) -> None:
        replay, self._replay = self._replay, None
        match event:
            case ReplayBegun(mode="live", first=first, last=last):
                place = next((at for at, step in enumerate(self._steps) if _number(step) >= first), len(self._steps))
                aside = deque(self._steps[place:])
                self._replay = _LiveReplay(last, list(self._steps), dict(self._statements), aside)
                del self._steps[place:]
            case ReplayEnded(outcome="completed") if replay is not None:
                self._pass(replay, replay.last)
                self._steps += _behind(replay.aside)
            case ReplayEnded() if replay is not None:
                self._steps, self._statements, self._present = replay.steps, replay.statements, None
            case _:
                pass

    def _pass(self, replay: _LiveReplay, number: int) -> None:
        """Drops what was set aside as far as the statement of that number, but for what the user left out."""
        passed = 0
        for place, step in enumerate(replay.aside, 1):
            if _number(step) > number:
                break
            passed = place if _number(step) else passed
        for step in [replay.aside.popleft() for _ in range(passed)]:
            if isinstance(step, ExecutionStep) and step.is_omitted:
                self._steps.append(step)

    @property
    def reads(self) -> int:
        """How often a model has read."""
        return self._readings.count

    def record(self, execution_id: ExecutionId) -> ExecutionFinished | None:
        """How that execution ended; None where it did not, or a later one of its statement counts."""
        step = self._by_execution.get(execution_id)
        found = None if step is None else step.finished
        return found if found is not None and found.execution_id == execution_id else None

    def is_otherwise(self, execution_id: ExecutionId) -> bool:
        """Whether other statements ahead of it are left out than when it ran.

        What comes of that cannot be told from its record, and is what the user wants to have.
        """
        step = self._by_execution.get(execution_id)
        return step is not None and self._is_otherwise(step)

    def _is_otherwise(self, step: ExecutionStep) -> bool:
        return self._left_out_before(step) != step.without

    def _left_out_before(self, step: ExecutionStep) -> frozenset[int]:
        numbers = (each.statement.index for each in self._omitted.values())
        return frozenset(number for number in numbers if number < step.statement.index)

    @property
    def omitted(self) -> Sequence[StatementRecorded]:
        """The statements that the user left out."""
        return [step.statement for step in self._omitted.values()]

    @property
    def cut_off(self) -> Sequence[StatementRecorded]:
        """The statements that were running when the whole program ended, of the time since the latest rebuild."""
        steps = (step for step in self._steps if isinstance(step, ExecutionStep))
        return [step.statement for step in steps if step.was_cut_off(self._rebuilt)]

    @property
    def omitted_names(self) -> Collection[str]:
        """The names that those bound."""
        records = [step.finished for step in self._omitted.values()]
        return {name for record in records if record is not None for name in bound_names(record.diff)}

    def beyond(self, allows: Callable[[int], bool]) -> Mapping[int, int]:
        """The numbers of statements that would run again, or whose values would be loaded, and are not allowed to, by
        the positions at which they ran."""
        return {
            step.position: step.statement.index
            for step in self._steps
            if isinstance(step, ExecutionStep) and step.leaves_anything and not allows(step.position)
        }

    def plan(self, time_limit: float, allows: Callable[[int], bool] = _everything) -> RestorePlan:
        """The steps so far; each statement may take so many seconds.

        What ran at a position that is not one of those that `allows` does not run again, and nothing kept of it counts.
        """
        steps: list[PastStep] = []
        reads = 0
        for step in self._steps:
            if isinstance(step, Rebuild):
                steps.append(step.past(self.values, is_allowed=allows(step.restored.seq)))
                continue
            if isinstance(step, TickStep):
                past = step.past(reads)
            else:
                past = step.past(reads, time_limit, self.values, is_allowed=allows(step.position))
                if past is not None and self._is_otherwise(step):
                    past = replace(past, record=None)
            if past is not None:
                steps.append(past)
                reads = step.reads
            elif step.revisions:
                steps.append(PastLooks(revisions=tuple(map(past_revision, step.revisions))))
        after_reading = bool(steps) and self.reads > reads
        return RestorePlan(steps=tuple(steps), after_reading=after_reading, tiers=dict(self._tiers))


def _behind(aside: Collection[_Step]) -> Sequence[_Step]:
    """What follows the statements of a live replay that has completed.

    Where no statement does, the namespace is the one that they ran in, which has had none of these ticks: a node would
    go back to what it saw before.
    """
    if not any(isinstance(step, ExecutionStep) for step in aside):
        return ()
    for step in aside:
        if isinstance(step, ExecutionStep):
            step.is_stale = True
    return [step for step in aside if not isinstance(step, Rebuild)]


def _number(step: _Step) -> int:
    """Of a statement; 0 of what is none."""
    return step.statement.index if isinstance(step, ExecutionStep) else 0
