"""Runs one statement: announces it, executes it in the environment, and records everything that came of it.

Owns what is appended for a statement and in which order. Must not know turns or permissions. Used by the agent loop.
"""

from __future__ import annotations

import anyio

from ..events.conversation import ResultStatus, ToolResult
from ..events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..execution import NOT_RUN, ExceptionInfo, ExecutionStatus, StatementKind
from ..ids import ExecutionId, ToolCallId
from ..log import EventLog
from ..minter import Minter
from ..ports import Clock, Environment, RunOutcome, RunRequest
from ..projection.results import result_text
from ..timeline.index import Timeline
from .effects import EffectDesk
from .journal import Journal
from .live_environment import LiveEnvironment
from .policy import Policy
from .signals import OutputStreamed

_NOT_RUN = ExceptionInfo(type=NOT_RUN, message="the statement was not run, because no worker could run it")
_RESULTS: dict[ExecutionStatus, ResultStatus] = {"ok": "ok", "cancelled": "cancelled"}


class StatementRunner:
    """The way of every statement of a session, whoever wrote it."""

    def __init__(
        self,
        *,
        log: EventLog,
        journal: Journal,
        timeline: Timeline,
        policy: Policy,
        environment: LiveEnvironment,
        effects: EffectDesk,
        minter: Minter,
        clock: Clock,
        seconds: float,
    ) -> None:
        self._log = log
        self._journal = journal
        self._timeline = timeline
        self._policy = policy
        self._environment = environment
        self._effects = effects
        self._minter = minter
        self._clock = clock
        self._seconds = seconds
        self._waiting: StatementRecorded | None = None
        self._scope: anyio.CancelScope | None = None

    def announce(self, source: str, call: ToolCallId) -> StatementRecorded:
        """Records a statement that may run later: the next `run` of the same call takes it up."""
        self._waiting = self._record_statement(source, call, "python")
        return self._waiting

    async def run(
        self,
        source: str,
        round_id: int,
        call: ToolCallId | None,
        *,
        kind: StatementKind = "python",
        seconds: float | None = None,
    ) -> ExecutionFinished:
        """Runs a statement to its end, whatever that is.

        Args:
            source: Python.
            round_id: the Round it belongs to.
            call: the model's call, which gets the result; None where no model asked.
            kind: `meta` for what the session runs by itself, to open what a prompt had attached.
            seconds: how long it may run; None for as long as the settings allow.

        Raises:
            EnvironmentUnavailableError: there is no worker to run it in; that is recorded too.
        """
        statement, self._waiting = self._waiting, None
        if statement is None or statement.tool_call_id != call:
            statement = self._record_statement(source, call or self._minter.tool_call(), kind)
        finished = await self._execute(statement, round_id, self._seconds if seconds is None else seconds)
        if call is not None:
            status = _RESULTS.get(finished.status, "error")
            self._log.append(ToolResult(tool_call_id=call, status=status, text=result_text(finished)))
        return finished

    def interrupt(self) -> None:
        """Ends the statement that is running, or the rebuild that it waits for."""
        if self._scope is not None:
            self._scope.cancel()
        self._environment.interrupt()

    def _record_statement(self, source: str, call: ToolCallId, kind: StatementKind) -> StatementRecorded:
        statement = StatementRecorded(
            statement_id=self._minter.statement(),
            index=len(self._timeline.cells) + 1,
            source=source,
            tool_call_id=call,
            statement_kind=kind,
            parent=self._timeline.last_statement,
            fingerprint=self._environment.fingerprint(source),
        )
        self._log.append(statement)
        return statement

    async def _execute(self, statement: StatementRecorded, round_id: int, seconds: float) -> ExecutionFinished:
        execution_id = self._minter.execution()
        self._log.append(
            ExecutionStarted(
                execution_id=execution_id,
                statement_id=statement.statement_id,
                parent=self._timeline.last_execution,
            )
        )
        started_at = self._clock.now()
        outcome = RunOutcome(status="error", exception=_NOT_RUN)
        try:
            environment = await self._ready()
            if environment is None:
                outcome = RunOutcome(status="cancelled")
            else:
                outcome = await environment.run(
                    RunRequest(
                        execution_id=execution_id,
                        label=statement.label,
                        source=statement.source,
                        round_id=round_id,
                        time_limit=seconds,
                        plan=self._policy.mode == "plan",
                    ),
                    self._effects.handler(execution_id, statement.tool_call_id),
                    lambda stream, text: self._journal.signal(OutputStreamed(statement.tool_call_id, stream, text)),
                )
        finally:
            finished = self._record(statement, execution_id, started_at, outcome)
        return finished

    async def _ready(self) -> Environment | None:
        """The environment, rebuilt if need be; None where the user cancelled meanwhile."""
        environment: Environment | None = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                environment = await self._environment.ready()
            finally:
                self._scope = None
        return None if scope.cancel_called else environment

    def _record(
        self, statement: StatementRecorded, execution_id: ExecutionId, started_at: float, outcome: RunOutcome
    ) -> ExecutionFinished:
        for event in outcome.events:
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
            value=outcome.value,
            exception=outcome.exception,
            displays=outcome.displays,
            locations=outcome.locations,
            diff=outcome.diff,
        )
        taken = self._log.at(self._log.append(finished))
        assert isinstance(taken, ExecutionFinished)
        return taken
