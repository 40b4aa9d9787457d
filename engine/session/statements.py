"""Runs one statement: announces it, executes it in the environment, and records everything that came of it.

Owns what is appended for a statement and in which order. Must not know turns or permissions. Used by the agent loop.

What announces a statement is recorded while the worker is at it already, if the worker can be sent it as it is. Nothing
is weaker for that: it would not be durable by then either, and what the statement does is heard after it. Only what the
log would refuse must be found out before, and that is a text which is not Unicode. From the look at the worker to the
last event that announces the statement nothing is awaited, so numbers that are taken meanwhile are taken once.

A little over 300 lines, because the order in which things are appended stands in one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ..context.tail.results import result_text, value_chars
from ..core.domain import is_inside
from ..core.errors import EnvironmentUnavailableError
from ..core.execution import NOT_RUN, WORKER_DIED, Artifact, ExceptionInfo, ExecutionStatus, StatementKind
from ..core.ids import ExecutionId, Seq, ToolCallId
from ..core.text import cut_middle, valid_text
from ..log.events import Event
from ..log.events.conversation import ResultStatus, ToolResult
from ..log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..log.file_history import artifacts_of
from ..log.statements import RunOutcome, RunRequest
from ..runtime.environment import Environment
from .act_files import RecordedAnswers
from .acts import Acts, Desk
from .cancellation import Cancellation, WorkCancelledError
from .journal import OutputStreamed
from .kept import Revisions, ValueKeeping
from .live_environment import LiveEnvironment
from .parts import SessionParts
from .touches import Touches, records_of

_NOT_RUN = ExceptionInfo(type=NOT_RUN, message="the statement was not run, because no worker could run it")
_RESULTS: dict[ExecutionStatus, ResultStatus] = {"ok": "ok", "cancelled": "cancelled"}


class Rerun(Struct, frozen=True):
    """A statement of the timeline that runs again, with its effects.

    `against` is the execution that it is compared with; `compare` gives what is recorded ahead of its record.
    """

    statement: StatementRecorded
    execution_id: ExecutionId
    against: ExecutionId
    compare: Callable[[ExecutionFinished], Iterable[Event]]


class Stead(Struct, frozen=True):
    """What a statement runs in the stead of: an execution, with which it is compared.

    `compare` as in `Rerun`. With recorded `answers` it acts on nothing, and gets these where it asks for the same.
    """

    against: ExecutionId
    answers: RecordedAnswers | None
    compare: Callable[[ExecutionFinished], Iterable[Event]]


class StatementRunner:
    """Runs the statements of one session, whoever wrote them, one at a time."""

    def __init__(
        self,
        parts: SessionParts,
        environment: LiveEnvironment,
        revisions: Revisions,
        values: ValueKeeping,
        desk: Desk,
    ) -> None:
        self._log = parts.log
        self._journal = parts.journal
        self._timeline = parts.timeline
        self._policy = parts.policy
        self._environment = environment
        self._revisions = revisions
        self._values = values
        self._desk = desk
        self._minter = parts.minter
        self._clock = parts.clock
        self._seconds = parts.settings.statement_seconds
        self._value_chars = value_chars(parts.settings.context_budget)
        self._announced: StatementRecorded | None = None
        self._records = records_of(parts)
        self._writing: tuple[bytes, ...] = ()
        """The files that the namespace's process has open for writing."""

    def announce(self, source: str, call: ToolCallId) -> StatementRecorded:
        """Records a statement that may run later: the next `run` of the same call takes it up.

        Returns it as it was recorded, without secrets.
        """
        self._announced = self._statement(source, call, "python")
        self._log.append(self._announced)
        recorded = self._log.at(Seq(len(self._log) - 1))
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
        stead: Stead | None = None,
    ) -> ExecutionFinished:
        """Runs a statement to its end, whatever that is.

        A cancel is an end like others: it interrupts the statement, or gives up the rebuilding that it waits for, and
        what is recorded says `cancelled`.

        Args:
            source: Python.
            round_id: the Round it belongs to.
            call: the model's call, which gets the result; None where no model asked.
            cancellation: of the work that it belongs to.
            kind: `meta` for what the session runs by itself, to open what a prompt had attached.
            seconds: how long it may run; None for as long as the settings allow.
            approved: the user stands behind it with all that it does, so nobody is asked about its acts.
            opening: what is to be on the log ahead of the statement, and is not yet.
            stead: what it runs in the stead of.

        Raises:
            EnvironmentUnavailableError: there is no worker to run it in; that is recorded too, with the call's result.
        """
        unsaid = deque(opening)
        statement, self._announced = self._announced, None
        if statement is None or statement.tool_call_id != call:
            statement = self._statement(source, call or self._minter.tool_call(), kind)
            unsaid.append(statement)
        limit = self._seconds if seconds is None else seconds
        environment = None if self._writing or valid_text(source) != source else self._environment.at_rest()
        if environment is None:
            self._append(unsaid)
        async with self._environment.step:
            try:
                finished = await self._execute(
                    statement, round_id, limit, cancellation, approved, environment, unsaid, stead=stead
                )
            except EnvironmentUnavailableError:
                self._answer(call, "error", _NOT_RUN.message)
                raise
        self._answer(call, _RESULTS.get(finished.status, "error"), result_text(finished))
        return finished

    def _answer(self, call: ToolCallId | None, status: ResultStatus, text: str) -> None:
        if call is not None:
            self._log.append(ToolResult(tool_call_id=call, status=status, text=text))

    async def run_again(
        self, rerun: Rerun, round_id: int, cancellation: Cancellation, *, approved: bool
    ) -> ExecutionFinished:
        """Runs a statement of the timeline once more, in the namespace that there is; as `run`, without a result."""
        statement = rerun.statement
        async with self._environment.step:
            return await self._execute(
                statement, round_id, self._seconds, cancellation, approved, None, deque(), rerun=rerun
            )

    def _append(self, unsaid: deque[Event]) -> None:
        while unsaid:
            self._log.append(unsaid[0])
            unsaid.popleft()

    def _statement(self, source: str, call: ToolCallId, kind: StatementKind) -> StatementRecorded:
        return StatementRecorded(
            statement_id=self._minter.statement(),
            index=self._timeline.next_index,
            source=source,
            tool_call_id=call,
            statement_kind=kind,
            parent=self._timeline.last_statement,
            fingerprint=self._environment.fingerprint(source),
        )

    async def _execute(
        self,
        statement: StatementRecorded,
        round_id: int,
        seconds: float,
        cancellation: Cancellation,
        approved: bool,
        environment: Environment | None,
        unsaid: deque[Event],
        *,
        rerun: Rerun | None = None,
        stead: Stead | None = None,
    ) -> ExecutionFinished:
        execution_id = self._minter.execution() if rerun is None else rerun.execution_id
        answers = None if stead is None else stead.answers
        request = self._request(statement, execution_id, round_id, seconds, answered=answers is not None)
        start, started_at = len(self._log), self._clock.now()
        started = self._started(statement, request)
        call = statement.tool_call_id
        if rerun is not None:
            started = replace(started, mode="live", against=rerun.against)
            call = started.rerun_call
        elif stead is not None:
            started = replace(started, against=stead.against)
        unsaid.append(started)

        def announce() -> None:
            self._environment.record_kept()
            self._append(unsaid)

        # What opens an attachment makes no acts. One that comes meanwhile is of a statement before it: of a thread that
        # it left, or of what it put in the place of `view`.
        is_opening = (
            statement.statement_kind == "meta" and self._policy.asks_about(held=self._environment.is_held) == "acts"
        )
        acts = Acts(self._desk, execution_id, call, approved and not is_opening, answers)
        touches = Touches(self._records, execution_id, call, start, partial(self._may_write, request))
        outcome = RunOutcome(status="error", exception=_NOT_RUN)
        try:
            if environment is None:
                announce()
                environment = await cancellation.guard(self._environment.ready_to_run)
                await touches.hold(self._writing)
            run = partial(self._run_in, environment, request, acts, touches, announce)
            outcome = await cancellation.stoppable(run, environment.interrupt)
        except WorkCancelledError:
            outcome = RunOutcome(status="cancelled")
        finally:
            announce()
            appeared = self._environment.confinement.appeared()
            touches.take_new(place for place in appeared if not is_inside(place, tuple(acts.written)))
            if outcome.contents or outcome.more or touches.any:
                with anyio.CancelScope(shield=True):
                    await self._revisions.take(outcome.contents)
                    await touches.settle(outcome.more)
            self._writing = outcome.writing
            artifacts = artifacts_of(self._log.since(start), execution_id)
            finished = self._record(statement, execution_id, started_at, outcome, artifacts, rerun, stead)
        if _is_state(outcome):
            await self._environment.recorded(execution_id, acted=outcome.acted)
        return finished

    def _request(
        self, statement: StatementRecorded, execution_id: ExecutionId, round_id: int, seconds: float, *, answered: bool
    ) -> RunRequest:
        return RunRequest(
            execution_id=execution_id,
            label=statement.label,
            source=statement.source,
            index=statement.index,
            round_id=round_id,
            time_limit=seconds,
            plan=not answered and self._policy.mode == "plan",
            answered=answered,
            keeps=True,
        )

    def _started(self, statement: StatementRecorded, request: RunRequest) -> ExecutionStarted:
        return ExecutionStarted(
            execution_id=request.execution_id,
            statement_id=statement.statement_id,
            parent=self._timeline.last_execution,
            round_id=request.round_id,
            plan=request.plan,
            answered=request.answered,
        )

    def _may_write(self, request: RunRequest, place: str) -> bool:
        """Whether the statement can write there by itself: the host believes it that it does nowhere else."""
        return not request.plan and not request.answered and self._environment.confinement.may_write(place)

    async def _run_in(
        self,
        environment: Environment,
        request: RunRequest,
        acts: Acts,
        touches: Touches,
        begun: Callable[[], None],
    ) -> RunOutcome:
        return await environment.run(
            request,
            lambda effect: acts.perform(effect, environment),
            lambda stream, text: self._journal.signal(OutputStreamed(acts.parent, stream, text)),
            touches.take,
            begun,
        )

    def _record(
        self,
        statement: StatementRecorded,
        execution_id: ExecutionId,
        started_at: float,
        outcome: RunOutcome,
        artifacts: tuple[Artifact, ...],
        rerun: Rerun | None,
        stead: Stead | None,
    ) -> ExecutionFinished:
        for event in self._revisions.with_contents(outcome.events):
            self._log.append(event)
        finished = ExecutionFinished(
            execution_id=execution_id,
            statement_id=statement.statement_id,
            status=outcome.status,
            started_at=started_at,
            ended_at=self._clock.now(),
            time_ms=outcome.time_ms,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            value=outcome.value and cut_middle(outcome.value, self._value_chars),
            exception=outcome.exception,
            displays=outcome.displays,
            locations=outcome.locations,
            artifacts=artifacts,
            diff=outcome.diff,
            acted=outcome.acted,
            mode=None if rerun is None else "live",
        )
        compared = rerun or stead
        for event in () if compared is None else compared.compare(finished):
            self._log.append(event)
        taken = self._log.at(self._log.append(finished))
        assert isinstance(taken, ExecutionFinished)
        if _is_state(outcome):
            self._values.note(execution_id, large=outcome.acted or not self._runs_again(statement, outcome))
        return taken

    def _runs_again(self, statement: StatementRecorded, outcome: RunOutcome) -> bool:
        """Whether a rebuild will run the statement that has ended so; otherwise kept values are all that is left."""
        recorded = self._timeline.cell(statement.statement_id)  # which has lost a secret, if there was one
        return outcome.status in ("ok", "error") and recorded is not None and not recorded.statement.withheld


def _is_state(outcome: RunOutcome) -> bool:
    """Whether the statement has left a namespace."""
    return outcome.exception is None or outcome.exception.type not in (NOT_RUN, WORKER_DIED)
