"""Run statements and ticks in the worker, and record what happens, in a fixed order.

`StatementRunner` announces a statement, runs it, and records its result. `Ticker` opens Rounds and lets nodes catch up
with their files. Both put on the log what a rebuild needs, before anything else is appended. Must not know turns or
permissions. Called by the agent loop, by `serving` for the user's statements, and by `past` to run statements again.

**Announcing late.** If an idle worker can take the statement as it is, it starts first, and the events that announce it
are appended while it runs. This loses no guarantee: they would not be durable by then either, and the worker's messages
are handled after them. The log could refuse only source that is not Unicode, and that is checked before. There is no
await between the look at the worker and the last of these events, so no number is used twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import anyio
from msgspec import Struct

from ..context.tail.results import result_text, value_chars
from ..core.clock import Clock
from ..core.domain import is_inside
from ..core.errors import EnvironmentUnavailableError
from ..core.execution import NOT_RUN, WORKER_DIED, Artifact, ExceptionInfo, ExecutionStatus, StatementKind
from ..core.ids import ExecutionId, ToolCallId
from ..core.pictures import Picture
from ..core.python_source import distinct, tags_in
from ..core.text import cut_middle, valid_text
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.conversation import ResultStatus, ToolResult
from ..log.events.execution import EffectAnswered, ExecutionFinished, ExecutionStarted, StatementRecorded
from ..log.events.nodes import NodesTicked
from ..log.events.session import RoundCause, RoundOpened, WorkStopped
from ..log.facts import SessionFacts
from ..log.file_history import artifacts_of
from ..log.statements import RunOutcome, RunRequest, TickOutcome, UpdatePayload
from ..log.timeline import Timeline
from ..runtime.environment import Environment
from .cancellation import Cancellation, WorkCancelledError
from .journal import OutputStreamed
from .live_environment import LiveEnvironment
from .parts import SessionParts
from .preparing import Preparer
from .saved_state import Revisions, ValueSaver
from .tool_calls import ToolCalls, ToolContext
from .tool_records import RecordedAnswers
from .touches import Touches, touch_records

_NOT_RUN: Final = ExceptionInfo(type=NOT_RUN, message="the statement was not run, because no worker could run it")
_RESULTS: Final[dict[ExecutionStatus, ResultStatus]] = {"ok": "ok", "cancelled": "cancelled"}
"""The status of a call's result, by that of its execution; `error` for all others."""


class Rerun(Struct, frozen=True):
    """A statement of the timeline that runs again and acts again.

    It is compared with the execution `against`: `compare` gives the events to append ahead of its record.
    """

    statement: StatementRecorded
    execution_id: ExecutionId
    against: ExecutionId
    compare: Callable[[ExecutionFinished], Iterable[Event]]


class Replacement(Struct, frozen=True):
    """The execution that a new statement replaces; `against` and `compare` as in `Rerun`, None if it never ran.

    With recorded `answers` the statement gets these to the same requests, and changes nothing outside of the namespace.
    """

    against: ExecutionId | None
    answers: RecordedAnswers | None
    compare: Callable[[ExecutionFinished], Iterable[Event]]


class _Step(NamedTuple):
    """One execution of a statement. `approved`: the user allowed it with everything that it does."""

    statement: StatementRecorded
    execution_id: ExecutionId
    round_id: int
    seconds: float
    approved: bool
    compared: Rerun | Replacement | None
    payloads: tuple[UpdatePayload, ...]
    """For the first tick that it calls."""

    @property
    def answers(self) -> RecordedAnswers | None:
        return self.compared.answers if isinstance(self.compared, Replacement) else None

    @property
    def mode(self) -> Literal["live"] | None:
        """As in `ExecutionStarted`: a new statement has none."""
        return "live" if isinstance(self.compared, Rerun) else None


class StatementRunner:
    """Run the statements of one session, one at a time."""

    def __init__(
        self,
        parts: SessionParts,
        environment: LiveEnvironment,
        revisions: Revisions,
        values: ValueSaver,
        tools: ToolContext,
        preparer: Preparer,
    ) -> None:
        self._log = parts.log
        self._journal = parts.journal
        self._timeline = parts.timeline
        self._policy = parts.policy
        self._model = parts.model
        self._environment = environment
        self._revisions = revisions
        self._values = values
        self._tools = tools
        self._preparer = preparer
        self._pictures = parts.pictures
        self._minter = parts.minter
        self._clock = parts.clock
        self._seconds = parts.settings.statement_seconds
        self._value_chars = value_chars(parts.settings.context_budget)
        self._announced: StatementRecorded | None = None
        self._records = touch_records(parts)
        self._open_files: tuple[bytes, ...] = ()
        """Files that the worker has open for writing."""

    def announce(self, source: str, call: ToolCallId) -> StatementRecorded:
        """Record a statement that may run later, by the next `run` for this call.

        Returns it as recorded, without secrets.
        """
        self._announced = self._statement(source, call, "python")
        recorded = self._log.at(self._log.append(self._announced))
        assert isinstance(recorded, StatementRecorded)
        return recorded

    async def run(
        self,
        source: str,
        round_id: int,
        call: ToolCallId | None,
        cancellation: Cancellation,
        *,
        kind: StatementKind = "python",
        seconds: float | None = None,
        approved: bool = True,
        opening: Sequence[Event] = (),
        replaced: Replacement | None = None,
        tags: Sequence[str] = (),
    ) -> ExecutionFinished:
        """Run a statement to its end, and record it.

        A cancel interrupts the statement, or the rebuild that it waits for. Then the record says `cancelled`.

        Args:
            source: Python.
            round_id: its Round.
            call: the model's call, which gets the result; None if no model wrote the statement.
            cancellation: that of the turn or command.
            kind: `meta` for the session's own statements, which open attachments.
            seconds: the time limit; None for the limit of the settings.
            approved: the user allowed it with everything that it does, so its tool calls do not ask.
            opening: events to append ahead of the statement.
            replaced: the execution that it replaces.
            tags: its tags, beside those that comments of the source set. A model's statement has only those.

        Raises:
            EnvironmentUnavailableError: no worker can run it. The execution and the call's result are recorded.
        """
        pending = deque(opening)
        statement, self._announced = self._announced, None
        if statement is None or statement.tool_call_id != call:
            statement = self._statement(source, call or self._minter.tool_call(), kind, tags)
            pending.append(statement)
        limit = self._seconds if seconds is None else seconds
        environment = None if self._open_files or valid_text(source) != source else self._environment.ready_now()
        if environment is None:
            self._append(pending)
        async with self._environment.step, self._preparer.lend() as payloads:
            step = _Step(statement, self._minter.execution(), round_id, limit, approved, replaced, payloads)
            try:
                finished = await self._execute(step, cancellation, environment, pending)
            except EnvironmentUnavailableError:
                if call is not None:
                    self._log.append(ToolResult(tool_call_id=call, status="error", text=_NOT_RUN.message))
                raise
        if call is not None:
            status = _RESULTS.get(finished.status, "error")
            text, pictures = result_text(finished), finished.pictures
            self._log.append(ToolResult(tool_call_id=call, status=status, text=text, pictures=pictures))
        return finished

    async def run_again(
        self, rerun: Rerun, round_id: int, cancellation: Cancellation, *, approved: bool
    ) -> ExecutionFinished:
        """Run a statement of the timeline again in the current namespace; as `run`, but without a result."""
        async with self._environment.step, self._preparer.lend() as payloads:
            step = _Step(rerun.statement, rerun.execution_id, round_id, self._seconds, approved, rerun, payloads)
            return await self._execute(step, cancellation, None, deque())

    def _append(self, pending: deque[Event]) -> None:
        while pending:
            self._log.append(pending[0])
            pending.popleft()

    def _statement(
        self, source: str, call: ToolCallId, kind: StatementKind, tags: Sequence[str] = ()
    ) -> StatementRecorded:
        return StatementRecorded(
            statement_id=self._minter.statement(),
            index=self._timeline.next_index,
            source=source,
            tool_call_id=call,
            statement_kind=kind,
            parent=self._timeline.last_statement,
            fingerprint=self._environment.fingerprint(source),
            tag_names=distinct((*tags_in(source), *tags)),
        )

    async def _execute(
        self, step: _Step, cancellation: Cancellation, environment: Environment | None, pending: deque[Event]
    ) -> ExecutionFinished:
        """Run the step and record it. Without an `environment`, wait for one that is ready."""
        request = self._request(step)
        if not self._model.is_direct:
            self._tools.comparison.prepare_soon()
        start, started_at = len(self._log), self._clock.now()
        started = self._started(step, request)
        call = started.rerun_call if isinstance(step.compared, Rerun) else step.statement.tool_call_id
        pending.append(started)

        def announce() -> None:
            self._environment.record_values()
            self._append(pending)

        calls = ToolCalls(self._tools, step.execution_id, call, self._is_approved(step), step.answers)
        may_write = partial(self._may_write, request)
        touches = Touches(self._records, step.execution_id, call, start, may_write, self._tools.comparison)
        calls.before_change = touches.settle_unseen
        outcome = RunOutcome(status="error", exception=_NOT_RUN)
        pictures: Sequence[Picture] = ()
        guard = self._environment.confinement.guard
        guard.arm()
        try:
            if environment is None:
                announce()
                environment = await cancellation.guard(self._environment.ready_to_run)
                await touches.hold(self._open_files)
            run = partial(self._run_in, environment, request, calls, touches, announce)
            outcome = await cancellation.stoppable(run, environment.interrupt)
        except WorkCancelledError:
            outcome = RunOutcome(status="cancelled")
        finally:
            announce()
            with anyio.CancelScope(shield=True):
                appeared = await self._environment.confinement.appeared()
                touches.take_new(each for each in appeared if not is_inside(each.path, tuple(calls.written)))
                touches.take_away(guard.take())
                guard.disarm()
                self._environment.rest_guard()
            if outcome.contents or outcome.more or touches.any:
                with anyio.CancelScope(shield=True):
                    await self._revisions.take(outcome.contents)
                    await touches.settle(outcome.more)
            self._open_files = outcome.writing
            with anyio.CancelScope(shield=True):
                pictures = await self._pictures.keep(outcome.pictures)
            artifacts = artifacts_of(self._log.since(start), step.execution_id)
            finished = self._record(step, started_at, outcome, pictures, artifacts)
        if _left_namespace(outcome):
            await self._environment.statement_recorded(
                step.execution_id, outcome.time_ms / 1000, repeats=self._repeats(step.statement, outcome, start)
            )
        return finished

    def _repeats(self, statement: StatementRecorded, outcome: RunOutcome, start: int) -> bool:
        """Return whether a re-run would do what the statement did, which is on the log from `start` on.

        It gets the recorded answers of tools, but what acts without them is stopped.
        """
        if not outcome.acted:
            return self._runs_again(statement, outcome)
        has_answers = any(isinstance(event, EffectAnswered) for event in self._log.since(start))
        return has_answers and self._runs_again(statement, outcome)

    def _is_approved(self, step: _Step) -> bool:
        # A statement that opens an attachment calls no tool. A tool call during it comes from earlier code: from a
        # thread that is still running, or from a replaced `view`.
        is_opening = step.statement.statement_kind == "meta"
        asks = self._policy.asks_about(sandboxed=self._environment.is_sandboxed)
        return step.approved and not (is_opening and asks == "acts")

    def _request(self, step: _Step) -> RunRequest:
        known, is_known_read = ((), False) if step.mode is None else self._shown_before(step.statement)
        return RunRequest(
            execution_id=step.execution_id,
            label=step.statement.label,
            source=step.statement.source,
            index=step.statement.index,
            round_id=step.round_id,
            time_limit=step.seconds,
            plan=step.answers is None and self._policy.mode == "plan",
            answered=step.answers is not None,
            keeps=True,
            unread=step.mode is not None,
            known=known,
            is_known_read=is_known_read,
            payloads=step.payloads,
        )

    def _shown_before(self, statement: StatementRecorded) -> tuple[tuple[str, ...], bool]:
        """Return the renders of the statement that the conversation shows, and whether a model has read them.

        These are the renders of its latest execution that was not a replay.
        """
        cell = self._timeline.cell(statement.statement_id)
        if cell is None or cell.finished is None:
            return (), False
        is_read = self._environment.has_read(cell.finished.seq)
        if cell.finished.mode is None:
            return cell.finished.identities, is_read
        earlier = cell.started
        return ((), False) if earlier is None else (earlier.known, is_read or earlier.is_known_read)

    def _started(self, step: _Step, request: RunRequest) -> ExecutionStarted:
        return ExecutionStarted(
            execution_id=step.execution_id,
            statement_id=step.statement.statement_id,
            parent=self._timeline.last_execution,
            round_id=step.round_id,
            plan=request.plan,
            answered=request.answered,
            known=request.known,
            is_known_read=request.is_known_read,
            mode=step.mode,
            against=None if step.compared is None else step.compared.against,
        )

    def _may_write(self, request: RunRequest, place: str) -> bool:
        """Return whether the statement's own code can write there.

        The host does not believe reports of other writes.
        """
        return not request.plan and not request.answered and self._environment.confinement.may_write(place)

    async def _run_in(
        self,
        environment: Environment,
        request: RunRequest,
        calls: ToolCalls,
        touches: Touches,
        begun: Callable[[], None],
    ) -> RunOutcome:
        return await environment.run(
            request,
            lambda effect: calls.perform(effect, environment),
            lambda stream, text: self._journal.signal(OutputStreamed(calls.parent, stream, text)),
            touches.take,
            begun,
        )

    def _record(
        self,
        step: _Step,
        started_at: float,
        outcome: RunOutcome,
        pictures: Sequence[Picture],
        artifacts: tuple[Artifact, ...],
    ) -> ExecutionFinished:
        for event in self._revisions.with_contents(outcome.events):
            self._log.append(event)
        finished = ExecutionFinished(
            execution_id=step.execution_id,
            statement_id=step.statement.statement_id,
            status=outcome.status,
            started_at=started_at,
            ended_at=self._clock.now(),
            time_ms=outcome.time_ms,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            value=outcome.value and cut_middle(outcome.value, self._value_chars),
            markdown=outcome.markdown,
            pictures=tuple(pictures),
            exception=outcome.exception,
            displays=outcome.displays,
            locations=outcome.locations,
            artifacts=artifacts,
            diff=outcome.diff,
            acted=outcome.acted,
            mode=step.mode,
        )
        for event in () if step.compared is None else step.compared.compare(finished):
            self._log.append(event)
        recorded = self._log.at(self._log.append(finished))
        assert isinstance(recorded, ExecutionFinished)
        if _left_namespace(outcome):
            is_needed = outcome.acted or not self._runs_again(step.statement, outcome)
            self._values.note(step.execution_id, large=is_needed)
        return recorded

    def _runs_again(self, statement: StatementRecorded, outcome: RunOutcome) -> bool:
        """Return whether a rebuild will run this statement again.

        If not, only saved values bring its names back.
        """
        recorded = self._timeline.cell(statement.statement_id)  # without a secret that the source contained
        return outcome.status in ("ok", "error") and recorded is not None and not recorded.statement.withheld


def _left_namespace(outcome: RunOutcome) -> bool:
    """Return whether the statement ran and its worker is still alive."""
    return outcome.exception is None or outcome.exception.type not in (NOT_RUN, WORKER_DIED)


class Ticker:
    """Open the Rounds of one session and tick its nodes."""

    def __init__(
        self,
        *,
        log: EventLog,
        timeline: Timeline,
        facts: SessionFacts,
        environment: LiveEnvironment,
        revisions: Revisions,
        preparer: Preparer,
        clock: Clock,
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._facts = facts
        self._environment = environment
        self._revisions = revisions
        self._preparer = preparer
        self._clock = clock

    def next_round(self, cause: RoundCause) -> RoundOpened:
        """Return the event that opens the next Round, to be appended."""
        return self._facts.round_opening(cause)

    def open_round(self, cause: RoundCause) -> int:
        """Open the next Round; return its number."""
        opening = self.next_round(cause)
        self._log.append(opening)
        return opening.round_id

    def notify_change(self) -> None:
        """Report that files may have changed, because a statement ran."""
        self._preparer.notify_change()

    async def tick(self, round_id: int, cancellation: Cancellation | None = None) -> None:
        """Let running nodes catch up with their sources, if there is a namespace.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
            WorkCancelledError: a cancel came before.
        """
        if self._timeline.last_execution is None:
            return
        async with self._environment.step, self._preparer.lend() as payloads:
            outcome = await self._tick(round_id, payloads, cancellation)
        self._preparer.want(outcome.wants)

    async def _tick(
        self, round_id: int, payloads: Sequence[UpdatePayload], cancellation: Cancellation | None
    ) -> TickOutcome:
        async def act(environment: Environment) -> tuple[float, TickOutcome]:
            now = self._clock.now()
            return now, await environment.tick(round_id, now, payloads)

        now, outcome = await self._environment.use(act, cancellation)
        if outcome.stops:
            self._log.append(WorkStopped(sentences=outcome.stops))
        if outcome.nodes or outcome.events:
            # A rebuild follows the log, so ticked nodes must be on it, even if the caller was cancelled.
            with anyio.CancelScope(shield=True):
                await self._revisions.take(outcome.contents)
            self._log.append(NodesTicked(round_id=round_id, now=now, nodes=outcome.nodes))
            for event in self._revisions.with_contents(outcome.events):
                self._log.append(event)
        return outcome
