"""Runs statements again, on purpose, and records what comes out differently.

Owns the order of what is appended for a replay, which statements can take part, and what ends one. In a recorded or dry
replay the whole history is gone through in a fresh worker, as in a rebuild; the statements in question are looked at
one by one, and what comes of each is recorded as an execution that does not count. Afterwards the namespace is what any
rebuild would make of the log. So whatever goes wrong on the way, there is nothing to be undone: a namespace that is
half a replay's is let go, and the next use has a rebuilt one. A live replay runs in what the statements before it have
left, and its executions count once it has come to its end (`log.timeline.replay`); until then, and where it does not,
the log means what it meant before.

Must not know requests or transports. Called by `turns`, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec.structs import replace

from ...core.clock import Clock
from ...core.errors import EnvironmentUnavailableError, InvalidRequestError, StatementLostError
from ...core.execution import INTERRUPTED, WORKER_DIED, ExceptionInfo, ReplayMode
from ...core.ids import Minter
from ...log.comparison import AspectChange, aspects_of_rerun
from ...log.event_log import EventLog
from ...log.events import UNSTAMPED
from ...log.events.execution import ExecutionFinished, ExecutionStarted
from ...log.events.going_back import Diverged, ReplayBegun, ReplayEnded, ReplayOutcome
from ...log.past import Differences, PastExecution
from ...log.statements import RunRequest
from ...log.timeline import Cell, Timeline
from ..cancellation import Cancellation, WorkCancelledError
from ..live_environment import LiveEnvironment
from .live_replay import LiveReplay
from .replay_report import ReplayReport, ReplayRequest, report_of
from .replayable import check_any, not_run, numbers_of, runs_anew

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
        *,
        log: EventLog,
        timeline: Timeline,
        environment: LiveEnvironment,
        live: Callable[[Sequence[Cell]], LiveReplay],
        minter: Minter,
        clock: Clock,
    ) -> None:
        self._log = log
        self._timeline = timeline
        self._environment = environment
        self._live = live
        self._minter = minter
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
        replay = self._live(cells)
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
