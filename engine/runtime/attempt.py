"""One way through a history in a fresh worker: each step sees what it saw then.

Steps go to the worker in stretches, which it goes through by itself (`ahead`, `replay_run`). What it cannot decide
there, and each step that is to be taken alone, is done here, one after the other. A statement that does not run again
(it was stopped, its source is not kept, or it ended a worker) has the names that it bound set from what was kept of
them. So has one that is stopped now, or that comes out differently: the next statement is to find what it found then.
What has no copy is named. Must not know why something is left out, which is `rebuild`'s business, nor the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio

from ..core.ids import ExecutionId
from ..log.past import Comparison, Contents, PastExecution, PastLooks, PastRebuild, PastRevision, PastTick, RestorePlan
from ..log.statements import RunOutcome, RunRequest
from .ahead import Ahead, Prepared, recording_of, tick_message
from .brought_back import BroughtBack
from .connection import Connection
from .environment import Limits
from .left_out import Culprit, LeftOut
from .past_contents import PastContents
from .replay_run import TICK_SECONDS, ReplayRun, discard_output, no_effects
from .run_message import Recording
from .sentences import bounded
from .statement_run import StatementRun
from .worker.protocol import Known, Outlined, Settle, Settled, Ticked

_TICKS_AT_ONCE: Final = 32
"""So many are on their way at once, because a history has more of them than statements, and nothing waits for one."""
_TICK_BYTES: Final = 1 << 20
"""A tick that brings files of so many bytes is waited for, so that not all of them are in memory."""
_CHECK: Final = RunRequest(execution_id=ExecutionId("check"), label="<check>", source="0\nNone", time_limit=10.0)
"""What runs in every worker that works, and touches no name."""


class Attempt:
    """One attempt. `executions` counts the statements that ran again."""

    def __init__(
        self,
        worker: Connection,
        plan: RestorePlan,
        limits: Limits,
        contents: Contents,
        compare: Comparison,
        left_out: LeftOut,
        begins: Callable[[PastExecution], None],
    ) -> None:
        self._worker = worker
        self._plan = plan
        self._limits = limits
        self._past = PastContents(contents, plan.steps)
        is_alone = left_out.alone or left_out.checks
        alone = range(len(plan.steps)) if is_alone else left_out.statements
        self._ahead = Ahead(plan.steps, self._past, alone, left_out.values)
        self._left_out = left_out
        self._begins = begins
        self._names = BroughtBack(worker, plan.steps, self._past, compare, left_out.values, plan.behind)
        self._last = -1
        """The position of the last statement that ran."""
        self._ticks = 0
        """Those that have not been answered yet."""
        self.executions = 0
        self.anew: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        """As in `Restored`, when it is over."""

    async def run(self) -> list[str] | Culprit:
        """The sentences on what came out differently, where the worker lived through all steps."""
        if self._plan.tiers:
            self._worker.send(Outlined(self._plan.tiers))
        while (position := self._ahead.position) < len(self._plan.steps):
            await self._ahead.prepare()
            stretch = self._ahead.take()
            culprit = await (self._stretch(stretch) if stretch else self._alone(position))
            if culprit is not None:
                return culprit
        if (culprit := await self._ticked()) is not None:
            return culprit
        if not self._left_out.checks and not await self._is_sound():
            return Culprit(None)
        return await self._settle()

    # --- in stretches ------------------------------------------------------------------------------------------------

    async def _stretch(self, stretch: Sequence[Prepared]) -> Culprit | None:
        run = ReplayRun(self._worker, stretch, self._limits, self._was_brought_back, self._ahead.prepare, self._begins)
        if (culprit := await self._ticked()) is not None:
            return culprit
        await run.conduct()
        if run.is_unclear:
            return Culprit(None, is_unclear=True)
        begun = run.begun
        for prepared in begun:
            if isinstance(prepared.step, PastExecution):
                self._last = prepared.position
                self.executions += 1
        if self._worker.dead:
            return self._ended(begun, is_loading=run.is_loading)
        if run.over < len(stretch):
            self._ahead.put_back(stretch[run.over :])
        if run.came is not None:
            present = begun[-1]
            assert isinstance(present.step, PastExecution)
            return await self._names.compared(present.position, present.step, run.came)
        return None

    def _ended(self, begun: Sequence[Prepared], *, is_loading: bool) -> Culprit:
        """Where none has begun, it was a tick, which runs nothing of the statements': the last one is what ended it."""
        if is_loading:
            return Culprit(self._last, is_loading=True)
        return Culprit(self._last, "ended the worker") if begun else Culprit(self._last)

    def _was_brought_back(self, prepared: Prepared, outcome: RunOutcome, failures: dict[str, str]) -> None:
        assert isinstance(prepared.step, PastExecution)
        self._names.was_set(prepared.position, prepared.step, outcome, failures)

    # --- one after the other -----------------------------------------------------------------------------------------

    async def _alone(self, position: int) -> Culprit | None:
        self._ahead.skip()
        match self._plan.steps[position]:
            case PastLooks(revisions=revisions):
                return await self._know(revisions)
            case PastTick() as step:
                return await self._tick(step)
            case PastExecution() as step:
                return await self._ticked() or await self._statement(position, step)
            case PastRebuild() as step:
                return await self._ticked() or await self._names.rebuild(position, step, self._last)

    async def _statement(self, position: int, past: PastExecution) -> Culprit | None:
        fault = self._left_out.statements.get(position)
        if fault is not None or not past.again:
            await self._know(past.revisions or (), past.after_reading)
            return await self._names.skip(position, past, fault, self._last)
        self._last = position
        self.executions += 1
        self._begins(past)
        recording = await recording_of(past, self._past)
        outcome = await self._run(past.request, recording)
        if self._worker.dead:
            return Culprit(position, "ended the worker")
        culprit = await self._names.compared(position, past, outcome)
        if culprit is not None:
            return culprit
        return Culprit(position) if self._left_out.checks and not await self._is_sound() else None

    async def _run(self, request: RunRequest, recording: Recording) -> RunOutcome:
        self._send_contents()
        return await self._conduct(request, recording)

    async def _conduct(self, request: RunRequest, recording: Recording | None) -> RunOutcome:
        return await StatementRun(self._worker, request, self._limits, no_effects, discard_output, recording).conduct()

    async def _is_sound(self) -> bool:
        # Where nothing was guarded so far, to begin with that takes as long as all the rest. Where something was, a
        # statement that is free would end it ahead of its time.
        is_guarded = self.executions or self._names.has_set
        outcome = await self._conduct(_CHECK, Recording() if is_guarded else None)
        return outcome.status == "ok" and not self._worker.dead

    # --- between statements ------------------------------------------------------------------------------------------

    async def _tick(self, past: PastTick) -> Culprit | None:
        message = await tick_message(past, self._past)
        self._send_contents()
        self._worker.send(message)
        self._ticks += 1
        is_large = sum(revision.size for revision in past.revisions) >= _TICK_BYTES
        return await self._ticked() if is_large or self._ticks == _TICKS_AT_ONCE else None

    async def _ticked(self) -> Culprit | None:
        """Waits for the ticks that are on their way; the statement before them is what ended a worker there."""
        while self._ticks:
            self._ticks -= 1
            match await self._worker.receive(anyio.move_on_after(TICK_SECONDS)):
                case Ticked():
                    pass
                case _:
                    return Culprit(self._last)
        return None

    async def _know(self, revisions: Sequence[PastRevision], after_reading: bool = False) -> None:
        """Has the nodes know what was seen in a step that does not run again, and what was read before it."""
        if revisions or after_reading:
            looks = await self._past.looks(revisions)
            self._send_contents()
            self._worker.send(Known(looks, after_reading))

    def _send_contents(self) -> None:
        for content in self._past.take_unsent():
            self._worker.send(content)

    async def _settle(self) -> list[str] | Culprit:
        self._worker.send(Settle(self._plan.after_reading, tuple(self._names.without)))
        match await self._worker.receive(anyio.move_on_after(TICK_SECONDS)):
            case Settled(sentences=sentences, absent=absent):
                self.absent = tuple(sorted(absent))
                self.anew = tuple(sorted(self._names.without.difference(absent)))
                return [*self._names.sentences, *map(bounded, sentences)]
            case _:
                # What the last statement started may have ended it meanwhile.
                return Culprit(self._last if self._left_out.checks else None)
