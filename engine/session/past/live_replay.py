"""One live replay: statements run again with their effects, each in a Round of its own, and are asked about as usual.

Owns what ends it early, and who is asked. Before each statement the running nodes catch up, as before each call of a
model. Must not know what counts afterwards: that is the log's business. Made and ended by `replaying`; `editing` asks
and ends in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ...context.tail.feed import gained_sentence
from ...core.errors import EnvironmentUnavailableError
from ...core.execution import NOT_RUN, WORKER_DIED
from ...core.ids import Minter, ToolCallId
from ...log.event_log import EventLog
from ...log.events.conversation import ToolCall
from ...log.events.execution import ExecutionFinished
from ...log.events.going_back import Diverged, ReplayOutcome
from ...log.permissions import StatementSubject
from ...log.timeline import Cell, Rights
from ..acts.questions import Questions, Verdict
from ..cancellation import Cancellation, WorkCancelledError
from ..live_environment import LiveEnvironment
from ..policy import Policy
from ..statements import Rerun, StatementRunner
from ..ticker import Ticker
from .run_comparison import RunComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsAgain:
    """What it takes to run statements of a timeline once more, in its namespace, and to ask about them."""

    log: EventLog
    environment: LiveEnvironment
    statements: StatementRunner
    ticker: Ticker
    questions: Questions
    policy: Policy
    minter: Minter


class LiveReplay:
    """`cells` are the statements, `executions` what came of them so far."""

    def __init__(self, cells: Sequence[Cell], runs: RunsAgain) -> None:
        self.executions: list[ExecutionFinished] = []
        self._cells = cells
        self._runs = runs
        self._comparison = RunComparison(runs.log)
        self._consent = Consent(runs, cells)

    @property
    def divergences(self) -> Sequence[Diverged]:
        """What came out differently so far."""
        return self._comparison.divergences

    async def run(self, cancellation: Cancellation) -> tuple[ReplayOutcome, str]:
        """Runs the statements in what their past has left of the namespace; how that ended."""
        try:
            await cancellation.guard(self._runs.environment.renew)
            for cell in self._cells:
                failure = await self._again(cell, cancellation)
                if failure:
                    return "failed", failure
        except WorkCancelledError:
            return "cancelled", ""
        except EnvironmentUnavailableError as error:
            return "failed", str(error)
        return "completed", ""

    async def _again(self, cell: Cell, cancellation: Cancellation) -> str:
        """Why nothing is to follow it; empty where the next statement may."""
        runs, statement, before = self._runs, cell.statement, cell.current
        assert before is not None
        round_id = runs.ticker.open_round("replay")
        await runs.ticker.tick(round_id, cancellation)
        execution_id = runs.minter.execution()
        verdict, approved = await self._consent.ask(cell, ToolCallId(execution_id), cancellation)
        if verdict.outcome == "cancelled":
            raise WorkCancelledError
        if verdict.outcome == "rejected":
            return f"statement {statement.index} was not allowed to run again"
        start = len(runs.log)
        rerun = Rerun(
            statement=statement,
            execution_id=execution_id,
            against=before.started.execution_id,
            compare=partial(self._comparison.compare, statement.index, before, start),
        )
        finished = await runs.statements.run_again(rerun, round_id, cancellation, approved=approved)
        self.executions.append(finished)
        runs.ticker.cue()
        return fault_of(finished, statement.index)


class Consent:
    """Whether these statements of the timeline may run again: those that a model wrote are asked about, as they were.

    Whoever wrote them, those that would have more rights than when they ran are asked about, because what was refused
    to them then would be done now. That holds for what acts on nothing, too: only the kernel keeps all code to that.
    """

    def __init__(self, runs: RunsAgain, cells: Sequence[Cell]) -> None:
        calls = {cell.statement.tool_call_id for cell in cells}
        # Now, because on another branch positions of this path mean nothing.
        confinement = runs.environment.confinement
        ran_at = {cell.statement.statement_id: cell.current.started.seq for cell in cells if cell.current is not None}
        self._given = {statement: confinement.given_to(seq) for statement, seq in ran_at.items()}
        self._ran_with = {statement: confinement.ran_with(seq) for statement, seq in ran_at.items()}
        self._written = {
            event.tool_call_id
            for event in runs.log.path
            if isinstance(event, ToolCall) and event.tool_call_id in calls and not event.typed
        }
        """The calls of statements that a model wrote."""
        self._questions = runs.questions
        self._policy = runs.policy
        self._environment = runs.environment

    async def ask(
        self, cell: Cell, shown: ToolCallId, cancellation: Cancellation, *, acts: bool = True
    ) -> tuple[Verdict, bool]:
        """Whether the statement may run, and whether the user stands behind all that it does.

        Args:
            shown: its call.
            acts: what it asks for is done.
        """
        statement = cell.statement
        gained = await self._gained(cell, cancellation)
        if gained is not None:
            before = self._ran_with[statement.statement_id]
            subject = StatementSubject(statement.source, gained_sentence(gained, before))
            return await self._asked(subject, shown, cancellation), True
        if not acts or statement.tool_call_id not in self._written or statement.statement_kind == "meta":
            return Verdict("allowed"), True
        if self._policy.asks_about(held=self._environment.is_held) != "statements":
            return Verdict("allowed"), False
        return await self._asked(StatementSubject(statement.source), shown, cancellation), True

    async def _gained(self, cell: Cell, cancellation: Cancellation) -> Rights | None:
        given = self._given.get(cell.statement.statement_id)
        if given is None:
            return None
        await cancellation.guard(self._environment.ready)  # because what holds a worker is known when there is one
        return self._environment.confinement.beyond(given)

    async def _asked(self, subject: StatementSubject, shown: ToolCallId, cancellation: Cancellation) -> Verdict:
        return await cancellation.guard(lambda: self._questions.decide(shown, subject))


def fault_of(finished: ExecutionFinished, number: int) -> str:
    """Why no statement is to run behind one that ended so; empty where the next one may.

    Raises:
        WorkCancelledError: it was cancelled.
    """
    if finished.status == "cancelled":
        raise WorkCancelledError
    if finished.status == "timeout":
        return f"statement {number} reached its time limit"
    if finished.exception is not None and finished.exception.type in (WORKER_DIED, NOT_RUN):
        return f"statement {number} ended the worker"
    return ""
