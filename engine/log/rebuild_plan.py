"""How a namespace came about, as a fold over the log, and the plan by which it is rebuilt.

A plan has the executions and ticks of a path in order, each with what it saw at the time. An execution that was
not stopped runs again. A stopped one does not, nor one whose source contained a secret: its names come from kept
values. One that ended its worker left nothing, and one that the user omitted is not in the plan.

Recorded and dry replays are reports and change nothing here. When a live replay begins, the steps of its statements and
all later steps are set aside, and new steps follow what is left. When it completes, the statements behind its last one
follow again with the ticks around them, but without their kept values. If it ends otherwise, everything is as before.

Pure: contents are named by their digests. A `History` is made from the log for each rebuild and then dropped, because
it keeps most of the log's events. `session.live_environment` makes it and carries out the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.execution import INTERRUPTED, NOT_RUN, WORKER_DIED
from ..core.ids import ExecutionId, StatementId, ToolCallId
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
    ValuesDropped,
    ValuesKept,
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
from .facts import READING, Payloads, Readings, payload_of
from .past import (
    PastAnswer,
    PastExecution,
    PastLooks,
    PastPayload,
    PastQuestion,
    PastRebuild,
    PastRevision,
    PastStep,
    PastTick,
    PastValues,
    RestorePlan,
)
from .statements import RunRequest

NOT_ALLOWED: Final = "the saved copy was made with fewer permissions, so it was not loaded"
"""Why a name has no copy, if loading it would give its code more rights than it had."""
_STALE: Final = "the saved copy is older than the last run of an earlier statement"
_FEWER_RIGHTS: Final = "had fewer permissions than statements have now, so it was not run again"
_NOTHING_LEFT: Final = (WORKER_DIED, NOT_RUN, INTERRUPTED)

ExecutionPart = EffectRequested | EffectAnswered | ExecutionFinished | StatementTicked
"""The events of an execution that name its id."""
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
"""The kinds of event that concern steps; most events of a long log do not."""

_FOLLOWED: Final = _OF_STEPS | READING


class KeptValues:
    """Copies of values, by the execution that left them or the rebuild's event id. `apply` takes the whole log.

    A copy is made some time after its execution, and the head may move in between. So copies count whatever branch they
    were recorded on, and so do the events that drop them.
    """

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ValuesKept, ValuesDropped))

    def __init__(self) -> None:
        self._kept: dict[str, list[ValuesKept]] = {}
        self._dropped_before = UNSTAMPED

    def apply(self, event: Event) -> None:
        match event:
            case ValuesKept(execution_id=execution_id):
                self._kept.setdefault(execution_id, []).append(event)
            case ValuesDropped(before=before):
                self._dropped_before = before
            case _:
                pass

    def groups(self, execution_id: ExecutionId) -> tuple[PastValues, ...]:
        """Return the copies, including dropped ones."""
        return tuple(
            PastValues(
                names=group.names,
                content=group.content,
                dropped=each.seq < self._dropped_before,
                size=group.size,
                data=group.data,
            )
            for each in self._kept.get(execution_id, ())
            for group in each.groups
        )

    def unkept(self, execution_id: ExecutionId) -> dict[str, str]:
        """Return the names without a copy, each with the reason."""
        return {name: reason for each in self._kept.get(execution_id, ()) for name, reason in each.unkept.items()}


class Rebuild(Struct, frozen=True):
    """An earlier rebuild that lacked copies of some names."""

    restored: EnvironmentRestored

    def past(self, values: KeptValues, *, is_allowed: bool = True) -> PastRebuild:
        """Return the step of a plan, without copies if loading them is not allowed."""
        rebuild = ExecutionId(self.restored.event_id)
        if not is_allowed:
            lost = dict.fromkeys(self.restored.anew, NOT_ALLOWED)
            return PastRebuild(anew=self.restored.anew, absent=self.restored.absent, unkept=lost)
        return PastRebuild(
            anew=self.restored.anew,
            absent=self.restored.absent,
            kept=values.groups(rebuild),
            unkept=values.unkept(rebuild),
        )


class ExecutionStep(Struct):
    """A statement with its latest execution. `reads` counts the model's readings before it."""

    statement: StatementRecorded
    started: ExecutionStarted | None = None
    finished: ExecutionFinished | None = None
    calls: dict[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    questions: dict[int, EffectRequested] = field(default_factory=dict[int, EffectRequested])
    answers: list[EffectAnswered] = field(default_factory=list[EffectAnswered])
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    ticks: list[float] = field(default_factory=list[float])
    payloads: list[AsyncPayloadPrepared] = field(default_factory=list[AsyncPayloadPrepared])
    is_omitted: bool = False
    without: frozenset[int] = frozenset()
    """The numbers of the earlier statements that were omitted when it ran."""
    is_stale: bool = False
    """Its values were kept before an earlier statement ran again with another outcome."""
    reads: int = 0

    def take(self, event: ExecutionPart) -> None:
        """Add an event of the execution."""
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
        """Where the execution begins on the log; -1 if there was none."""
        return UNSTAMPED if self.started is None else self.started.seq

    @property
    def round_id(self) -> int | None:
        return None if self.started is None else self.started.round_id

    @property
    def leaves_anything(self) -> bool:
        """Whether it belongs in a plan."""
        return self.finished is not None and not self.is_omitted and not _left_nothing(self.finished)

    def was_cut_off(self, since: int) -> bool:
        """Return whether the whole program died while it ran, as recorded after position `since`."""
        finished = self.finished
        if finished is None or finished.exception is None or self.is_omitted:
            return False
        return finished.exception.type == INTERRUPTED and finished.seq > since

    def past(
        self, reads: int, time_limit: float, values: KeptValues, *, is_allowed: bool = True
    ) -> PastExecution | None:
        """Return the step of a plan; None if it left nothing or was omitted.

        Args:
            reads: the model's readings before the previous step.
            time_limit: seconds that the statement may take.
            is_allowed: whether it may run again. If not, its copies are not loaded either, because loading runs code.
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
                unread=True,
                known=finished.identities if started.mode is None else started.known,
                is_known_read=started.is_known_read,
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
            payloads=_past_payloads(self.payloads),
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
    """A tick. It applied or dropped `payloads`; `reads` as in `ExecutionStep`."""

    ticked: NodesTicked
    reads: int
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    payloads: list[AsyncPayloadPrepared] = field(default_factory=list[AsyncPayloadPrepared])

    @property
    def round_id(self) -> int:
        return self.ticked.round_id

    def past(self, reads: int) -> PastTick:
        """Return the step of a plan; `reads` as in `ExecutionStep.past`."""
        return PastTick(
            round_id=self.ticked.round_id,
            now=self.ticked.now,
            revisions=tuple(map(past_revision, self.revisions)),
            payloads=_past_payloads(self.payloads),
            after_reading=self.reads > reads,
        )


def _past_payloads(prepared: Iterable[AsyncPayloadPrepared]) -> tuple[PastPayload, ...]:
    return tuple(
        PastPayload(payload=payload_of(each), content=each.data) for each in sorted(prepared, key=lambda each: each.seq)
    )


def past_revision(event: RevisionAdopted | AdoptedContent) -> PastRevision:
    """Return a look at a file as a plan has it."""
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


_Step = ExecutionStep | TickStep | Rebuild


def _everything(_position: int) -> bool:
    return True


class _LiveReplay(Struct):
    """The state before a live replay; `aside` are the old steps that it has not passed yet."""

    last: int
    steps: list[_Step]
    statements: dict[StatementId, ExecutionStep]
    aside: deque[_Step]


class History:
    """The steps of a path. `apply` takes the events of the path, `values.apply` those of the whole log."""

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
        """Return the history of the active path of a whole log. O(the log)."""
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
        """Place the rebuild before a statement that waited for it, which is on the log already."""
        place = len(self._steps)
        while place and isinstance(step := self._steps[place - 1], ExecutionStep) and step.finished is None:
            place -= 1
        self._steps.insert(place, Rebuild(event))

    def _end_payload(self, event: AsyncPayloadApplied | AsyncPayloadDropped) -> None:
        prepared, step = self._payloads.get(event.payload_id), self._present
        self._payloads.apply(event)
        if prepared is not None and step is not None and event.turn_id is not None and event.turn_id == step.round_id:
            step.payloads.append(prepared)

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
        step.calls, step.questions, step.answers = {}, {}, []
        step.revisions, step.ticks, step.payloads = [], [], []
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
        """Drop what was set aside up to the statement of that number, except what the user omitted."""
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
        """The number of the model's readings."""
        return self._readings.count

    def record(self, execution_id: ExecutionId) -> ExecutionFinished | None:
        """Return the record of an execution; None if it has none, or a later one of its statement counts."""
        step = self._by_execution.get(execution_id)
        found = None if step is None else step.finished
        return found if found is not None and found.execution_id == execution_id else None

    def is_otherwise(self, execution_id: ExecutionId) -> bool:
        """Return whether other earlier statements are omitted now than when it ran.

        Its record then says nothing about a re-run, and the user wants the difference.
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
        """The statements that the user omitted."""
        return [step.statement for step in self._omitted.values()]

    @property
    def cut_off(self) -> Sequence[StatementRecorded]:
        """The statements that ran when the whole program died, since the latest rebuild."""
        steps = (step for step in self._steps if isinstance(step, ExecutionStep))
        return [step.statement for step in steps if step.was_cut_off(self._rebuilt)]

    @property
    def omitted_names(self) -> Collection[str]:
        """The names that the omitted statements bound."""
        records = [step.finished for step in self._omitted.values()]
        return {name for record in records if record is not None for name in bound_names(record.diff)}

    def beyond(self, allows: Callable[[int], bool]) -> Mapping[int, int]:
        """Return the statements that a rebuild would need and that may not run again: number by position."""
        return {
            step.position: step.statement.index
            for step in self._steps
            if isinstance(step, ExecutionStep) and step.leaves_anything and not allows(step.position)
        }

    def plan(self, time_limit: float, allows: Callable[[int], bool] = _everything) -> RestorePlan:
        """Return the plan so far.

        Args:
            time_limit: seconds that each statement may take.
            allows: whether what ran at a position may run again. If not, its kept values do not count either.
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
    """Return the steps that follow the statements of a completed live replay.

    Without a statement among them there are none: the namespace of the replay never had these ticks, so with them a
    node would go back to what it saw before.
    """
    if not any(isinstance(step, ExecutionStep) for step in aside):
        return ()
    for step in aside:
        if isinstance(step, ExecutionStep):
            step.is_stale = True
    return [step for step in aside if not isinstance(step, Rebuild)]


def _number(step: _Step) -> int:
    """Return the statement's number; 0 for other steps."""
    return step.statement.index if isinstance(step, ExecutionStep) else 0


def observed_steps(plan: RestorePlan, first: int, last: int) -> Sequence[PastExecution]:
    """Return the executions of the statements `first` to `last` that a rebuild would run again."""
    return [step for step in plan.steps if _is_observed(step, first, last)]


def observing(plan: RestorePlan, first: int, last: int, *, answers: bool) -> RestorePlan:
    """Return the plan of a replay: the outcomes of these statements are compared, and none of them is skipped.

    Args:
        answers: whether the statements get the recorded answers to their effects.
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
