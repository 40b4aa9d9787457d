"""Runs statements again on purpose, recorded or live, and records what comes out differently."""

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

# What came out differently when a statement ran again with its effects, or another one in its place.
#
# Compared is what each came to, which of the files that both have read had another content, and what they left of
# files. Used by `live_replay` and `editing`, one for each of theirs.


class RunComparison:
    """`divergences` are all that was found so far. Where statements do not act, it says nothing that files differ."""

    def __init__(self, log: EventLog, *, acts: bool = True) -> None:
        self.divergences: list[Diverged] = []
        self._log = log
        self._acts = acts

    def compare(self, statement: int, before: Execution, start: int, after: ExecutionFinished) -> Iterable[Event]:
        """The events to be recorded ahead of the record `after`, of what began at position `start` of the log."""
        redacted = self._log.redacted(after)
        assert isinstance(redacted, ExecutionFinished)
        if before.finished is None:
            return
        found = differences(ending_of(before.finished), ending_of(redacted))
        then = self._files(before.started.execution_id, before.started.seq, before.finished.seq)
        now = self._files(after.execution_id, start, len(self._log))
        # Only what both have read can be compared: what a node knew already it does not read again.
        both = then.read.keys() & now.read.keys()
        read = ({path: then.read[path] for path in both}, {path: now.read[path] for path in both})
        # One of them may have found a file as the other one left it, and so have changed nothing.
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
    """Digests of files by path: as an execution read them, through a tool or first by a view, and as it left them."""

    read: dict[str, str]
    left: dict[str, str]


# live replay:
# One live replay: statements run again with their effects, each in a Round of its own, and are asked about as usual.
#
# Owns what ends it early, and who is asked. Before each statement the running nodes catch up, as before each call of
# a model. Must not know what counts afterwards: that is the log's business. Made and ended by `replaying`; `editing`
# asks and ends in the same way.


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunContext:
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

    def __init__(self, cells: Sequence[Cell], runs: RerunContext) -> None:
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
        runs.ticker.notify_change()
        return fault_of(finished, statement.index)


class Consent:
    """Whether these statements of the timeline may run again: those that a model wrote are asked about, as they were.

    Whoever wrote them, those that would have more rights than when they ran are asked about, because what was refused
    to them then would be done now. That holds for what acts on nothing, too: only the kernel keeps all code to that.
    """

    def __init__(self, runs: RerunContext, cells: Sequence[Cell]) -> None:
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
        if self._policy.asks_about(sandboxed=self._environment.is_sandboxed) != "statements":
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


# replayable:
# Which statements of a timeline are meant, which of them can run again, and a sentence on each that cannot.
#
# Pure. Used by `replaying` and `editing`.

_STOPPED: Final = ("cancelled", "timeout")
_REASONS: Final = 5
"""So many are told of why nothing can run again."""


def numbers_of(first: int, last: int | None, cells: Sequence[Cell]) -> tuple[int, int]:
    """Of the first and the last statement that are meant. Raises InvalidRequestError."""
    last = len(cells) if last is None else last
    for number in (first, last):
        if not 1 <= number <= len(cells):
            raise InvalidRequestError(no_such_statement(cells, str(number)))
    if first > last:
        raise InvalidRequestError(f"Statement {first} comes after statement {last}; name the earlier one first.")
    return first, last


def runs_anew(cell: Cell) -> bool:
    """Whether the statement runs again where nothing is set of what it left.

    One that was stopped does not: it would have to be waited for until its time limit, each time.
    """
    return not cell.omitted and cell.finished is not None and cell.finished.status not in _STOPPED


def check_any(found: Collection[object], reasons: Sequence[str]) -> None:
    """Raises InvalidRequestError where nothing runs again, with reasons."""
    if not found:
        left = len(reasons) - _REASONS
        said = "; ".join([*reasons[:_REASONS], *([more(left, "statement")] if left > 0 else ())])
        raise InvalidRequestError(f"Nothing can run again: {said}.")


def not_run(cells: Sequence[Cell], running: Collection[int], *, anew: bool, branch: str = "") -> tuple[str, ...]:
    """A sentence on each of the statements that does not run again.

    Args:
        running: the numbers of those that do.
        anew: whether nothing is set of what the others left.
        branch: whose numbers these are, where another one is active when that is read.
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
        left = "nothing is set of what it left" if anew else "what it left is set from what was kept"
        return f"was stopped ({cell.finished.status}) and is not run again; {left}"
    if cell.statement.withheld:
        return "held a secret in its source, which is not kept"
    return "has never run" if cell.finished is None else "left nothing that could be compared"


# replaying:
# Runs statements again, on purpose, and records what comes out differently.
#
# Owns the order of what is appended for a replay, which statements can take part, and what ends one. In a recorded or
# dry replay the whole history is gone through in a fresh worker, as in a rebuild; the statements in question are
# looked at one by one, and what comes of each is recorded as an execution that does not count. Afterwards the
# namespace is what any rebuild would make of the log. So whatever goes wrong on the way, there is nothing to be
# undone: a namespace that is half a replay's is let go, and the next use has a rebuilt one. A live replay runs in
# what the statements before it have left, and its executions count once it has come to its end
# (`log.timeline.replay`); until then, and where it does not, the log means what it meant before.
#
# Must not know requests or transports. Called by `session_runtime`, one at a time.

_Ending = tuple[ReplayOutcome, str]
"""How a replay ended, and why, as in `ReplayEnded`."""
_ENDED: Final = ExceptionInfo(type=INTERRUPTED, message="the replay ended before this statement had")


class _ReplayOverError(Exception):
    """Ends a replay from within: there is nothing more to look at, or it failed. `outcome` as in `ReplayEnded`."""

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
        """Runs the statements again; how that went. A cancel ends it, and everything is as it was before.

        Raises:
            InvalidRequestError: there are no such statements, or none of them runs again; nothing was recorded.
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
                f"Statement {lost} held a secret in its source, which is not kept, so it cannot run again."
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
                # What is in the namespace is not what the log says by now.
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
    """Records what comes of the statements of a recorded or dry replay, as one after the other ends."""

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
        """Whether there is a next statement, which is due then."""
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
        """What came of the statement that was due. Raises what ends the replay.

        Where the history is gone through once more, because a worker was lost on the way, statements come again that
        have been taken. The first time counts.
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
            raise _ReplayOverError("completed", f"statement {number} is the first that asks for an effect")
        if not self.begin() and self.mode == "dry":
            raise _ReplayOverError("completed", "none of them asks for an effect")

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
        """Nothing more is taken; the statement that was due, if any, has ended with that."""
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

    def _finish(self, came: ExecutionFinished) -> None:
        due, self._due = self._due, None
        assert due is not None
        now = self._clock.now()
        finished = replace(
            came,
            seq=UNSTAMPED,
            execution_id=due.execution_id,
            started_at=now - came.time_ms / 1000,
            ended_at=now,
            artifacts=(),
            mode=self.mode,
        )
        taken = self._log.at(self._log.append(finished))
        assert isinstance(taken, ExecutionFinished)
        self.executions.append(taken)
