"""Drives one turn: performs the effects that `Turn` yields and records everything that happens on the log.

Owns how a model call, a statement and a tick are carried out and what is appended when. Must not decide what comes
next (that is `turn.py`) nor know any protocol. Called by `Session`, one turn at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio

from .. import turn as t
from ..errors import EnvironmentUnavailableError
from ..events import (
    ExecutionFinished,
    ExecutionStarted,
    RunStop,
    StatementRecorded,
    ToolResult,
    UsageReported,
)
from ..events.conversation import ResultStatus, RunStopReason, StopCause
from ..execution import ExecutionStatus, StatementKind
from ..ids import ExecutionId, Minter, ToolCallId
from ..log import EventLog
from ..ports import Clock, Model, ModelError, RunOutcome, RunRequest
from ..projection.results import result_text
from ..timeline.index import Timeline
from .effects import EffectDesk
from .journal import Journal, OutputStreamed
from .live_environment import LiveEnvironment
from .projector import Projector
from .replies import ReplyRecorder

T = TypeVar("T")

_REASONS: Final[dict[StopCause, RunStopReason]] = {"cancelled": "interrupted", "error": "error"}
_RESULTS: Final[dict[ExecutionStatus, ResultStatus]] = {"ok": "ok", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a turn ends by itself. `statement_seconds` bounds each statement, `max_rounds` the model calls."""

    max_rounds: int
    statement_seconds: float


class AgentLoop:
    """The hands of a session: everything a turn does goes through here, in order."""

    def __init__(
        self,
        *,
        log: EventLog,
        journal: Journal,
        timeline: Timeline,
        environment: LiveEnvironment,
        projector: Projector,
        effects: EffectDesk,
        model: Model,
        minter: Minter,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._log = log
        self._journal = journal
        self._timeline = timeline
        self._environment = environment
        self._projector = projector
        self._effects = effects
        self._model = model
        self._minter = minter
        self._clock = clock
        self._limits = limits
        self._turn: t.Turn | None = None
        self._scope: anyio.CancelScope | None = None

    async def run(self, openings: Sequence[str]) -> t.Stop:
        """Runs a turn to its end and appends its RunStop. The UserMessage is on the log already."""
        turn = self._turn = t.Turn(self._timeline.rounds, self._limits.max_rounds)
        effect = turn.feed(t.Begin(tuple(openings)))
        while not isinstance(effect, t.Stop):
            assert effect is not None
            effect = turn.feed(await self._perform(effect))
        self._turn = None
        self._finish(effect)
        return effect

    def cancel(self) -> None:
        """Ends the running turn as cancelled, if there is one; what is under way is given up at once."""
        if self._turn is not None and isinstance(self._turn.feed(t.Cancel()), t.Abort):
            if self._scope is not None:
                self._scope.cancel()
            self._environment.interrupt()

    def _finish(self, stop: t.Stop) -> None:
        status: ResultStatus = "cancelled" if stop.cause == "cancelled" else "error"
        for call in self._log.open_calls:
            text = f"[{status} before it ended]"
            self._log.append(
                ToolResult(tool_call_id=call.tool_call_id, status=status, text=text, parent_id=call.parent_id)
            )
        self._log.append(RunStop(reason=_REASONS.get(stop.cause, "completed"), cause=stop.cause, detail=stop.detail))

    async def _perform(self, effect: t.Effect) -> t.Outcome:
        try:
            match effect:
                case t.RunTick(round_id=round_id):
                    await self.tick(round_id)
                    return t.Ticked()
                case t.CallModel():
                    return await self._call_model()
                case t.RunStatement():
                    return await self._run_statement(effect)
                case _:
                    raise TypeError(f"{effect} is no effect to perform")
        except (ModelError, EnvironmentUnavailableError) as error:
            return t.Failed(str(error))

    async def _abortable(self, perform: Awaitable[T]) -> T | None:
        """Awaits what a cancel may cut short at any point; None where it did."""
        result: T | None = None
        with anyio.CancelScope() as self._scope:
            result = await perform
        self._scope = None
        return result

    async def tick(self, round_id: int) -> None:
        """Lets running nodes catch up with their sources, if there is a namespace at all.

        Raises:
            EnvironmentUnavailableError: the worker is gone and cannot be replaced.
        """
        if self._timeline.last_execution is None:
            return
        environment = await self._abortable(self._environment.ready())
        if environment is not None:
            # Not cut short by a cancel: a worker that is left in the middle of an answer would have to be replaced.
            outcome = await environment.tick(round_id, self._clock.now())
            for event in outcome.events:
                self._log.append(event)

    async def _call_model(self) -> t.Outcome:
        environment = await self._abortable(self._environment.ready())
        if environment is None:
            return t.Aborted()
        projection = await self._projector.project(environment)
        outcome: t.Outcome | None = None
        try:
            if self._turn is not None and self._turn.state is t.State.CALLING:
                recorder = ReplyRecorder(self._log, self._journal, self._minter)
                outcome = await self._abortable(recorder.record(self._model.reply(projection.prompt)))
        finally:
            # After the reply, because what is shown waits for what was recorded before it.
            self._log.append(UsageReported(used=projection.used, size=projection.size))
        return outcome or t.Aborted()

    async def _run_statement(self, effect: t.RunStatement) -> t.Outcome:
        kind: StatementKind = "meta" if effect.tool_call_id is None else "python"
        call = ToolCallId(effect.tool_call_id) if effect.tool_call_id else self._minter.tool_call()
        statement = StatementRecorded(
            statement_id=self._minter.statement(),
            index=len(self._timeline.cells) + 1,
            source=effect.source,
            tool_call_id=call,
            statement_kind=kind,
            parent=self._timeline.last_statement,
            fingerprint=self._environment.fingerprint(effect.source),
        )
        self._log.append(statement)
        finished = await self._execute(statement, effect.round_id)
        if kind == "python":
            status = _RESULTS.get(finished.status, "error")
            self._log.append(ToolResult(tool_call_id=call, status=status, text=result_text(finished)))
        return t.Ran()

    async def _execute(self, statement: StatementRecorded, round_id: int) -> ExecutionFinished:
        execution_id = self._minter.execution()
        self._log.append(
            ExecutionStarted(
                execution_id=execution_id,
                statement_id=statement.statement_id,
                parent=self._timeline.last_execution,
            )
        )
        started_at = self._clock.now()
        outcome: RunOutcome | None = None
        try:
            environment = await self._abortable(self._environment.ready())
            if environment is not None:
                outcome = await environment.run(
                    RunRequest(
                        execution_id=execution_id,
                        label=statement.label,
                        source=statement.source,
                        round_id=round_id,
                        time_limit=self._limits.statement_seconds,
                    ),
                    self._effects.handler(execution_id, statement.tool_call_id),
                    lambda stream, text: self._journal.signal(OutputStreamed(statement.tool_call_id, stream, text)),
                )
        finally:
            finished = self._record(statement, execution_id, started_at, outcome or RunOutcome(status="cancelled"))
        return finished

    def _record(
        self, statement: StatementRecorded, execution_id: ExecutionId, started_at: float, outcome: RunOutcome
    ) -> ExecutionFinished:
        for event in outcome.events:
            self._log.append(event)
        finished = self._environment.redacted(
            ExecutionFinished(
                execution_id=execution_id,
                statement_id=statement.statement_id,
                status=outcome.status,
                started_at=started_at,
                ended_at=self._clock.now(),
                time_ms=outcome.time_ms,
                stdout=outcome.stdout,
                stderr=outcome.stderr,
                value=outcome.value,
                exception=outcome.exception,
                displays=outcome.displays,
                locations=outcome.locations,
                diff=outcome.diff,
                artifacts=outcome.artifacts,
            )
        )
        self._log.append(finished)
        return finished
