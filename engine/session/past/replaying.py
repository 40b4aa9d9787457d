"""Replays: run statements again at the user's request, recorded, dry or live, and record the differences.

A recorded or dry replay runs the whole history in a fresh worker, like a rebuild. Each requested statement is compared
and recorded as an execution that is not part of the timeline. Afterwards the namespace is what any rebuild would make.
So a failure needs no undo: the half-replayed namespace is dropped, and the next use rebuilds it.

A live replay runs in the namespace that the earlier statements left. Its executions become part of the timeline when it
completes (`log.timeline`). Until then, and if it does not complete, the log keeps its earlier meaning.

Must not know requests or transports. Called by `session_runtime`, one at a time; `editing` uses the comparison and the
questions too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import anyio
from msgspec.structs import replace

from ...context.tail.rights import gained_sentence
from ...core.clock import Clock
from ...core.errors import EnvironmentUnavailableError, InvalidRequestError, StatementLostError
from ...core.execution import INTERRUPTED, NOT_RUN, WORKER_DIED, ExceptionInfo, ReplayMode
from ...core.ids import ExecutionId, Minter, Seq, ToolCallId
from ...core.text import more
from ...log.comparison import AspectChange, aspects_of_live_rerun, aspects_of_rerun, differences, ending_of
from ...log.event_log import EventLog
from ...log.events import UNSTAMPED, Event
from ...log.events.conversation import ToolCall
from ...log.events.execution import EffectAnswered, ExecutionFinished, ExecutionStarted, FileTouched, FileWritten
from ...log.events.going_back import Diverged, ReplayBegun, ReplayEnded, ReplayOutcome
from ...log.events.nodes import seen_in
from ...log.past import Differences, PastExecution
from ...log.permissions import StatementSubject
from ...log.rights import Rights
from ...log.statements import RunRequest
from ...log.timeline import Cell, Execution, Timeline
from ..cancellation import Cancellation, WorkCancelledError
from ..live_environment import LiveEnvironment
from ..policy import Policy, Questions, Verdict
from ..requests import ReplayReport, ReplayRequest, no_such_statement, report_of
from ..statements import Rerun, StatementRunner, Ticker


class RunComparison:
    """Compare executions of live replays and edits with the earlier ones: results, files read, files left.

    `divergences` are the differences so far. Without `acts` statements change no files, so only files read are
    compared.
    """

    def __init__(self, log: EventLog, *, acts: bool = True) -> None:
        self.divergences: list[Diverged] = []
        self._log = log
        self._acts = acts

    def compare(self, statement: int, before: Execution, start: int, after: ExecutionFinished) -> Iterable[Event]:
        """Yield the differences, to be appended before `after`, whose execution began at position `start`."""
        redacted = self._log.redacted(after)
        assert isinstance(redacted, ExecutionFinished)
        if before.finished is None:
            return
        found = differences(ending_of(before.finished), ending_of(redacted))
        then = self._files(before.started.execution_id, before.started.seq, before.finished.seq)
        now = self._files(after.execution_id, start, len(self._log))
        # Only files that both have read, because a node does not read again what it knows.
        both = then.read.keys() & now.read.keys()
        read = ({path: then.read[path] for path in both}, {path: now.read[path] for path in both})
        # Files that either changed: one may have changed nothing because it found what the other had left.
        artifacts = (*before.finished.artifacts, *after.artifacts) if self._acts else ()
        changed = {artifact.path for artifact in artifacts}
        left = [{path: each.left[path] for path in changed & each.left.keys()} for each in (then, now)]
        for change in aspects_of_live_rerun(found, read, (left[0], left[1])):
            event = Diverged(
                execution_id=after.execution_id,
                against=before.started.execution_id,
                statement=statement,
                aspect=change.aspect,
                before=change.before,
                after=change.after,
            )
            self.divergences.append(event)
            yield event

    def _files(self, execution_id: ExecutionId, start: int, end: int) -> _Files:
        files = _Files({}, {})
        for position in range(start, end):
            event = self._log.at(Seq(position))
            match event:
                case EffectAnswered(execution_id=owner, path=path, digest=digest) if owner == execution_id and digest:
                    files.read[path] = files.left[path] = digest
                case FileTouched(execution_id=owner, path=path, before_digest=digest) if owner == execution_id:
                    files.left.setdefault(path, digest)
                case FileWritten(execution_id=owner, path=path, after_digest=digest) if owner == execution_id:
                    files.left[path] = digest
                case _:
                    pass
            for look in seen_in(event):
                files.read.setdefault(look.path, look.digest)
        return files


class _Files(NamedTuple):
    """Digests by path: of files as an execution read them (last by a tool, else first by a view), and left them."""

    read: dict[str, str]
    left: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunContext:
    """The parts of a session that run statements again and ask the user about them."""

    log: EventLog
    environment: LiveEnvironment
    statements: StatementRunner
    ticker: Ticker
    questions: Questions
    policy: Policy
    minter: Minter


class LiveReplay:
    """One live replay of `cells`: each statement runs in its own round, after a tick, with the usual questions.

    `executions` are the results so far.
    """

    def __init__(self, cells: Sequence[Cell], runs: RerunContext) -> None:
        self.executions: list[ExecutionFinished] = []
        self._cells = cells
        self._runs = runs
        self._comparison = RunComparison(runs.log)
        self._consent = Consent(runs, cells)

    @property
    def divergences(self) -> Sequence[Diverged]:
        """The differences so far."""
        return self._comparison.divergences

    async def run(self, cancellation: Cancellation) -> tuple[ReplayOutcome, str]:
        """Run the statements in the current namespace; return the outcome and why."""
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
        """Run one statement; return why the replay must stop, or ""."""
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
        runs.ticker.notify_change()
        return fault_of(finished, statement.index)


class Consent:
    """Ask whether statements may run again.

    The mode decides about a model's statements, as for the first run. A statement that would have more rights than
    when it ran is always asked about, because an action that failed then could succeed now. That includes statements
    without effects: only the kernel can stop all code from acting.
    """

    def __init__(self, runs: RerunContext, cells: Sequence[Cell]) -> None:
        calls = {cell.statement.tool_call_id for cell in cells}
        # Read now, because positions of this path mean nothing on another branch.
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
        """Return whether the statement may run, and whether its actions need no further question.

        Args:
            shown: the call that the question shows.
            acts: its tool calls are performed, not answered from the record.
        """
        statement = cell.statement
        gained = await self._gained(cell, cancellation)
        if gained is not None:
            before = self._ran_with[statement.statement_id]
            subject = StatementSubject(statement.source, gained_sentence(gained, before))
            return await self._asked(subject, shown, cancellation), True
        if not acts or statement.tool_call_id not in self._written or statement.statement_kind == "meta":
            return Verdict("allowed"), True
        if self._policy.asks_about(sandboxed=self._environment.is_sandboxed) != "statements":
            return Verdict("allowed"), False
        return await self._asked(StatementSubject(statement.source), shown, cancellation), True

    async def _gained(self, cell: Cell, cancellation: Cancellation) -> Rights | None:
        given = self._given.get(cell.statement.statement_id)
        if given is None:
            return None
        await cancellation.guard(self._environment.ready)  # because a worker's sandbox is known once it runs
        return self._environment.confinement.beyond(given)

    async def _asked(self, subject: StatementSubject, shown: ToolCallId, cancellation: Cancellation) -> Verdict:
        return await cancellation.guard(lambda: self._questions.decide(shown, subject))


def fault_of(finished: ExecutionFinished, number: int) -> str:
    """Return why no statement can run after one with this result, or "".

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


# --- which statements can run again -----------------------------------------------------------------------------------

_STOPPED: Final = ("cancelled", "timeout")
_REASONS: Final = 5
"""The most reasons that an error lists."""


def numbers_of(first: int, last: int | None, cells: Sequence[Cell]) -> tuple[int, int]:
    """The checked numbers of the first and last statement. Raises InvalidRequestError."""
    last = len(cells) if last is None else last
    for number in (first, last):
        if not 1 <= number <= len(cells):
            raise InvalidRequestError(no_such_statement(cells, str(number)))
    if first > last:
        raise InvalidRequestError(f"Statement {first} comes after statement {last}; name the earlier one first.")
    return first, last


def runs_anew(cell: Cell) -> bool:
    """Whether the statement runs again if its values are not restored from copies.

    A stopped one does not, because it could run into its time limit each time.
    """
    return not cell.omitted and cell.finished is not None and cell.finished.status not in _STOPPED


def check_any(found: Collection[object], reasons: Sequence[str]) -> None:
    """Raise InvalidRequestError, with the reasons, if nothing can run again."""
    if not found:
        left = len(reasons) - _REASONS
        listed = "; ".join([*reasons[:_REASONS], *([more(left, "statement")] if left > 0 else ())])
        raise InvalidRequestError(f"Nothing can run again: {listed}.")


def not_run(cells: Sequence[Cell], running: Collection[int], *, anew: bool, branch: str = "") -> tuple[str, ...]:
    """A sentence for each statement that does not run again.

    Args:
        running: the numbers of those that run.
        anew: the values of the others are not restored.
        branch: the branch of these numbers, if another is active when the user reads the sentence.
    """
    where = f" of {branch}" if branch else ""
    return tuple(
        f"statement {cell.statement.index}{where} {_why(cell, anew=anew)}"
        for cell in cells
        if cell.statement.index not in running
    )


def _why(cell: Cell, *, anew: bool) -> str:
    if cell.omitted:
        return "is left out, as the user asked"
    if cell.finished is not None and cell.finished.status in _STOPPED:
        left = "its values are not restored" if anew else "its values are restored from copies"
        return f"was stopped ({cell.finished.status}) and is not run again; {left}"
    if cell.statement.withheld:
        return "had a secret in its source, which is not stored"
    return "has never run" if cell.finished is None else "has no result to compare"


# --- the replays of a session -----------------------------------------------------------------------------------------

_Ending = tuple[ReplayOutcome, str]
"""The outcome of a replay and its reason, as in `ReplayEnded`."""
_ENDED: Final = ExceptionInfo(type=INTERRUPTED, message="the replay ended while this statement ran")


class _ReplayOverError(Exception):
    """Ends a replay from inside its callback: it is complete, or it failed. `outcome` as in `ReplayEnded`."""

    def __init__(self, outcome: ReplayOutcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome: ReplayOutcome = outcome


class Replayer:
    """The replays of one session."""

    def __init__(
        self,
        runs: RerunContext,
        *,
        timeline: Timeline,
        clock: Clock,
    ) -> None:
        self._runs = runs
        self._log = runs.log
        self._timeline = timeline
        self._environment = runs.environment
        self._minter = runs.minter
        self._clock = clock

    async def replay(self, request: ReplayRequest, cancellation: Cancellation) -> ReplayReport:
        """Run the statements again. A cancel ends the replay and leaves the session unchanged.

        Raises:
            InvalidRequestError: there are no such statements, or none can run again; nothing was recorded.
        """
        numbers = first, last = numbers_of(request.first, request.last, self._timeline.cells)
        if request.mode == "live":
            return await self._run_live(request, first, last, cancellation)
        steps = self._environment.again(first, last)
        running = [step.request.index for step in steps]
        reasons = not_run(self._timeline.cells[first - 1 : last], running, anew=False)
        check_any(steps, reasons)
        self._log.append(ReplayBegun(first=first, last=last, mode=request.mode, statements=len(steps)))
        observer = _Observer(self._log, self._minter, self._clock, request.mode, steps, self._timeline.cells)
        ending: _Ending = "interrupted", "internal error"
        try:
            ending = await self._observe(observer, first, last, cancellation)
        finally:
            observer.end(_ENDED)
            self._log.append(ReplayEnded(outcome=ending[0], detail=ending[1]))
        return report_of(request, numbers, observer, ending, reasons)

    async def _run_live(
        self, request: ReplayRequest, first: int, last: int, cancellation: Cancellation
    ) -> ReplayReport:
        meant = self._timeline.cells[first - 1 : last]
        cells = [cell for cell in meant if runs_anew(cell)]
        lost = next((cell.statement.index for cell in cells if cell.statement.withheld), None)
        if lost is not None:
            raise InvalidRequestError(
                f"Statement {lost} had a secret in its source, which is not stored, so it cannot run again."
            )
        reasons = not_run(meant, [cell.statement.index for cell in cells], anew=True)
        check_any(cells, reasons)
        replay = LiveReplay(cells, self._runs)
        self._log.append(ReplayBegun(first=first, last=last, mode="live", statements=len(cells)))
        ending: _Ending = "interrupted", "internal error"
        try:
            ending = await replay.run(cancellation)
        finally:
            self._log.append(ReplayEnded(outcome=ending[0], detail=ending[1]))
            if ending[0] != "completed" or last < len(self._timeline.cells):
                # Because the namespace no longer agrees with the log.
                with anyio.CancelScope(shield=True):
                    await self._environment.renew()
        return report_of(request, (first, last), replay, ending, reasons)

    async def _observe(self, observer: _Observer, first: int, last: int, cancellation: Cancellation) -> _Ending:
        async def act() -> None:
            async with self._environment.step:
                observer.begin()
                await self._environment.replay(first, last, observer.take, answers=observer.mode != "dry")

        try:
            await cancellation.guard(act)
        except _ReplayOverError as over:
            return over.outcome, str(over)
        except WorkCancelledError:
            return "cancelled", ""
        except StatementLostError as lost:
            observer.end(ExceptionInfo(type=WORKER_DIED, message=lost.fault))
            return "failed", f"{lost.label.strip('<>')} {lost.fault}"
        except EnvironmentUnavailableError as error:
            return "failed", str(error)
        return "completed", ""


class _Observer:
    """Record each statement of a recorded or dry replay as it ends."""

    def __init__(
        self,
        log: EventLog,
        minter: Minter,
        clock: Clock,
        mode: ReplayMode,
        steps: Sequence[PastExecution],
        cells: Sequence[Cell],
    ) -> None:
        self.mode: ReplayMode = mode
        self.executions: list[ExecutionFinished] = []
        self.divergences: list[Diverged] = []
        self._log = log
        self._minter = minter
        self._clock = clock
        self._steps = steps
        self._cells = cells
        self._due: ExecutionStarted | None = None

    def begin(self) -> bool:
        """Announce the next statement, which is then due; False if there is none."""
        if len(self.executions) == len(self._steps):
            return False
        step = self._steps[len(self.executions)]
        number, request = step.request.index, step.request
        before = self._cells[number - 2].started if number > 1 else None
        parent = self.executions[-1] if self.executions else before
        started = ExecutionStarted(
            execution_id=self._minter.execution(),
            statement_id=self._cells[number - 1].statement.statement_id,
            parent=None if parent is None else parent.execution_id,
            round_id=request.round_id,
            plan=request.plan,
            answered=request.answered,
            mode=self.mode,
            against=request.execution_id,
        )
        self._log.append(started)
        self._due = started
        return True

    def take(
        self,
        past: PastExecution,
        before: ExecutionFinished,
        after: ExecutionFinished,
        found: Differences,
        stops: Sequence[str],
    ) -> None:
        """Record the result of the statement that is due. Raises _ReplayOverError to end the replay.

        If a worker died, the history runs again, and results arrive a second time. Only the first ones are recorded.
        """
        if self._due is None or past.request.execution_id != self._due.against:
            return
        number = past.request.index
        for change in aspects_of_rerun(past, before, after, found, stops):
            self._diverge(self._due, past.request, change)
        self._finish(after)
        if after.status == "timeout":
            raise _ReplayOverError("failed", f"statement {number} reached its time limit")
        if self.mode == "dry" and stops:
            raise _ReplayOverError("completed", f"statement {number} is the first with an effect")
        if not self.begin() and self.mode == "dry":
            raise _ReplayOverError("completed", "no statement has an effect")

    def _diverge(self, due: ExecutionStarted, request: RunRequest, change: AspectChange) -> None:
        event = Diverged(
            execution_id=due.execution_id,
            against=request.execution_id,
            statement=request.index,
            aspect=change.aspect,
            before=change.before,
            after=change.after,
        )
        taken = self._log.at(self._log.append(event))
        assert isinstance(taken, Diverged)
        self.divergences.append(taken)

    def end(self, exception: ExceptionInfo) -> None:
        """Stop recording. The statement that is due, if any, ends with this exception."""
        if self._due is not None:
            status = "error" if exception.type == WORKER_DIED else "cancelled"
            self._finish(
                ExecutionFinished(
                    execution_id=self._due.execution_id,
                    statement_id=self._due.statement_id,
                    status=status,
                    started_at=0.0,
                    ended_at=0.0,
                    exception=exception,
                )
            )

    def _finish(self, result: ExecutionFinished) -> None:
        due, self._due = self._due, None
        assert due is not None
        now = self._clock.now()
        finished = replace(
            result,
            seq=UNSTAMPED,
            execution_id=due.execution_id,
            started_at=now - result.time_ms / 1000,
            ended_at=now,
            artifacts=(),
            mode=self.mode,
        )
        taken = self._log.at(self._log.append(finished))
        assert isinstance(taken, ExecutionFinished)
        self.executions.append(taken)
