"""One live replay: statements run again with their effects, each in a Round of its own, and are asked about as usual.

Owns what ends it early, and what is compared: what each statement came to, which of the files that it read had another
content, and what it left of files. Before each the running nodes catch up, as before each call of a model. Must not
know what counts afterwards: that is the log's business. Made and ended by `replaying`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ..errors import EnvironmentUnavailableError
from ..events import Event
from ..events.conversation import ToolCall
from ..events.execution import EffectAnswered, ExecutionFinished, StatementRecorded
from ..events.nodes import seen_in
from ..events.replays import Diverged, ReplayOutcome
from ..execution import NOT_RUN, WORKER_DIED
from ..ids import ExecutionId, Seq, ToolCallId
from ..log import EventLog
from ..minter import Minter
from ..ports import StatementSubject
from ..timeline.compared import aspects_of_live_rerun
from ..timeline.divergence import differences, ending_of
from ..timeline.index import Cell, Execution
from .cancellation import Cancellation, WorkCancelledError
from .live_environment import LiveEnvironment
from .policy import Policy
from .questions import Questions, Verdict
from .statements import Rerun, StatementRunner
from .ticker import Ticker


class LiveReplay:
    """`cells` are the statements. `executions` and `divergences` are what came of it so far."""

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        log: EventLog,
        environment: LiveEnvironment,
        statements: StatementRunner,
        ticker: Ticker,
        questions: Questions,
        policy: Policy,
        minter: Minter,
    ) -> None:
        self.executions: list[ExecutionFinished] = []
        self.divergences: list[Diverged] = []
        self._cells = cells
        self._log = log
        self._environment = environment
        self._statements = statements
        self._ticker = ticker
        self._questions = questions
        self._policy = policy
        self._minter = minter
        calls = {cell.statement.tool_call_id for cell in cells}
        self._written = {
            event.tool_call_id
            for event in log.path
            if isinstance(event, ToolCall) and event.tool_call_id in calls and not event.typed
        }
        """The calls of statements that a model wrote."""

    async def run(self, cancellation: Cancellation) -> tuple[ReplayOutcome, str]:
        """Runs the statements in what their past has left of the namespace; how that ended."""
        try:
            await cancellation.guard(self._environment.rest)
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
        statement, before = cell.statement, cell.current
        assert before is not None
        round_id = self._ticker.open_round("replay")
        await self._ticker.tick(round_id, cancellation)
        execution_id = self._minter.execution()
        verdict, approved = await self._decided(cell, execution_id, cancellation)
        if verdict.outcome == "cancelled":
            raise WorkCancelledError
        if verdict.outcome == "rejected":
            return f"statement {statement.index} was not allowed to run again"
        start = len(self._log)
        rerun = Rerun(
            statement=statement,
            execution_id=execution_id,
            against=before.started.execution_id,
            compare=partial(self._compared, statement, before, start),
        )
        finished = await self._statements.run_again(rerun, round_id, cancellation, approved=approved)
        self.executions.append(finished)
        self._ticker.cue()
        if finished.status == "cancelled":
            raise WorkCancelledError
        if finished.status == "timeout":
            return f"statement {statement.index} reached its time limit"
        if finished.exception is not None and finished.exception.type in (WORKER_DIED, NOT_RUN):
            return f"statement {statement.index} ended the worker"
        return ""

    async def _decided(self, cell: Cell, execution_id: ExecutionId, cancellation: Cancellation) -> tuple[Verdict, bool]:
        """Whether the statement may run, and whether the user stands behind all that it does."""
        call = cell.statement.tool_call_id
        if call not in self._written or cell.statement.statement_kind == "meta":
            return Verdict("allowed"), True
        if self._policy.asks_about != "statements":
            return Verdict("allowed"), False
        shown, subject = ToolCallId(execution_id), StatementSubject(cell.statement.source)
        return await cancellation.guard(lambda: self._questions.decide(shown, subject)), True

    def _compared(
        self, statement: StatementRecorded, before: Execution, start: int, after: ExecutionFinished
    ) -> Iterable[Event]:
        """What came out differently, to be recorded ahead of the record of what began at `start`."""
        redacted = self._log.redacted(after)
        assert isinstance(redacted, ExecutionFinished)
        if before.finished is None:
            return
        found = differences(ending_of(before.finished), ending_of(redacted))
        then = self._read(before.started.execution_id, before.started.seq, before.finished.seq)
        now = self._read(after.execution_id, start, len(self._log))
        # Only what both have read can be compared: what a node knew already it does not read again.
        both = then.keys() & now.keys()
        read = ({path: then[path] for path in both}, {path: now[path] for path in both})
        for change in aspects_of_live_rerun(found, read, (_left(before.finished), _left(after))):
            event = Diverged(
                execution_id=after.execution_id,
                against=before.started.execution_id,
                statement=statement.index,
                aspect=change.aspect,
                before=change.before,
                after=change.after,
            )
            self.divergences.append(event)
            yield event

    def _read(self, execution_id: ExecutionId, start: int, end: int) -> Mapping[str, str]:
        """The digests of the files that an execution read, by path: through a tool, and first by a view."""
        found: dict[str, str] = {}
        for position in range(start, end):
            event = self._log.at(Seq(position))
            if isinstance(event, EffectAnswered) and event.execution_id == execution_id and event.digest:
                found[event.path] = event.digest
            for look in seen_in(event):
                found.setdefault(look.path, look.digest)
        return found


def _left(record: ExecutionFinished) -> Mapping[str, str]:
    return {artifact.path: artifact.after_digest for artifact in record.artifacts}
