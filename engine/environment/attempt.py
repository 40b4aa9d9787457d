"""One way through a history in a fresh worker: each step sees what it saw then.

A statement that does not run again (it was stopped, its source is not kept, or it ended a worker) has the names that it
bound set from what was kept of them. So has one that is stopped now, or that comes out differently: the next statement
is to find what it found then. What has no copy is named. Must not know why something is left out, which is `rebuild`'s
business, nor the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import anyio
from msgspec import Struct, field

from ..errors import EnvironmentUnavailableError
from ..execution import NamespaceDiff
from ..ids import ExecutionId
from ..ports import (
    Comparison,
    Contents,
    EffectAnswer,
    EffectRequest,
    Limits,
    PastExecution,
    PastLooks,
    PastRevision,
    PastTick,
    RestorePlan,
    RunOutcome,
    RunRequest,
    ValueGroup,
)
from ..worker.protocol import Known, Outlined, Settle, Settled, SetValues, Tick, Ticked, ValuesSet
from .bounded_request import ask
from .connection import Connection
from .kept_values import KeptValues, Wanted
from .past_contents import PastContents
from .sentences import STOPPED, bounded, outcome_of, sentence, skipped, told
from .statement_run import Recording, StatementRun

_REQUEST_SECONDS: Final = 30.0
"""A tick that takes longer has lost its worker."""
_TICKS_AT_ONCE: Final = 32
"""So many are on their way at once, because a history has more of them than statements, and nothing waits for one."""
_TICK_BYTES: Final = 1 << 20
"""A tick that brings files of so many bytes is waited for, so that not all of them are in memory."""
_LOADING_SECONDS: Final = 10.0
"""How long loading values may take before it is interrupted."""
_BATCH_BYTES: Final = 64 << 20
"""Of values that are sent together, as far as they are several groups."""
_CHECK: Final = RunRequest(execution_id=ExecutionId("check"), label="<check>", source="0\nNone", time_limit=10.0)
"""What runs in every worker that works, and touches no name."""


class Culprit(Struct, frozen=True):
    """What ended an attempt: the statement at `position` of the steps, None where nobody knows which, -1 before any.

    `is_loading`: not that statement, but what was kept of its names.
    """

    position: int | None
    fault: Literal["ended the worker", "left Python unusable in its process"] = "left Python unusable in its process"
    is_loading: bool = False


class LeftOut(Struct):
    """What an attempt is not to do: statements, by position, each with a phrase that says why, and loading of values.

    With `checks` it looks after each statement whether another one would still run.
    """

    statements: dict[int, str] = field(default_factory=dict[int, str])
    values: set[int] = field(default_factory=set[int])
    checks: bool = False


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
    ) -> None:
        self._worker = worker
        self._plan = plan
        self._limits = limits
        self._past = PastContents(contents, worker, plan.steps)
        self._compare = compare
        self._left_out = left_out
        self._kept = KeptValues()
        self._sentences: list[str] = []
        self._last = -1
        """The position of the last statement that ran."""
        self._ticks = 0
        """Those that have not been answered yet."""
        self.executions = 0

    async def run(self) -> list[str] | Culprit:
        """The sentences on what came out differently, where the worker lived through all steps."""
        if self._plan.tiers:
            self._worker.send(Outlined(self._plan.tiers))
        for position, step in enumerate(self._plan.steps):
            match step:
                case PastLooks(revisions=revisions):
                    culprit = await self._know(revisions)
                case PastTick():
                    culprit = await self._tick(step)
                case PastExecution():
                    culprit = await self._ticked() or await self._statement(position, step)
            if culprit is not None:
                return culprit
        if (culprit := await self._ticked()) is not None:
            return culprit
        if not self._left_out.checks and not await self._is_sound():
            return Culprit(None)
        return await self._settle()

    # --- statements ---------------------------------------------------------------------------------------------------

    async def _statement(self, position: int, past: PastExecution) -> Culprit | None:
        self._kept.take(past)
        fault = self._left_out.statements.get(position)
        if fault is not None or not past.again:
            await self._know(past.revisions or (), past.after_reading)
            wanted = self._kept.wanted((*past.bound, *past.unbound))
            return await self._bring_back(position, past, skipped(past, fault), wanted)
        self._last = position
        self.executions += 1
        outcome, stops = await self._run(past.request, await self._recording(past))
        if self._worker.dead:
            return Culprit(position, "ended the worker")
        different = self._compare(past, outcome)
        if phrases := told(stops, different.phrases):
            names = (*past.bound, *past.unbound, *_names(outcome.diff))
            culprit = await self._bring_back(position, past, phrases, self._kept.wanted(names, different.same))
            if culprit is not None:
                return culprit
        return Culprit(position) if self._left_out.checks and not await self._is_sound() else None

    async def _recording(self, past: PastExecution) -> Recording:
        return Recording(
            answers=await self._past.answers(past.answers),
            revisions=None if past.revisions is None else await self._past.looks(past.revisions),
            after_reading=past.after_reading,
            ticks=past.ticks,
        )

    async def _run(self, request: RunRequest, recording: Recording) -> tuple[RunOutcome, tuple[str, ...]]:
        statement = StatementRun(self._worker, request, self._limits, _no_effects, _discard_output, recording)
        return await statement.conduct(), statement.stops

    async def _is_sound(self) -> bool:
        outcome, _ = await self._run(_CHECK, Recording())
        return outcome.status == "ok" and not self._worker.dead

    # --- kept values --------------------------------------------------------------------------------------------------

    async def _bring_back(
        self, position: int, past: PastExecution, phrases: Sequence[str], wanted: Wanted
    ) -> Culprit | None:
        """Sets what is kept of a step's names; says what it came to, unless a stopped one has all its names back."""
        without = dict(wanted.without)
        groups: list[ValueGroup] = []
        for data, names in zip(await self._past.values(wanted.groups), wanted.groups.values(), strict=True):
            if isinstance(data, str):
                without |= dict.fromkeys(names, f"its copy {data}")
            elif position in self._left_out.values:
                without |= dict.fromkeys(names, "loading its copy ended the worker")
            else:
                groups.append(ValueGroup(names, data))
        for batch in _batches(groups):
            failures = await self._set(SetValues(batch))
            if failures is None:
                return Culprit(position, is_loading=True)
            without |= failures
        brought = [name for group in groups for name in group.names if name not in without]
        if wanted.delete and await self._set(SetValues((), wanted.delete)) is None:
            return Culprit(self._last)
        if phrases or without:
            *others, last = phrases or (STOPPED.format(past.status),)
            said = "; ".join([last, *outcome_of(brought, without)])
            self._sentences += [sentence(past.request.label, phrase) for phrase in (*others, said)]
        return None

    async def _set(self, message: SetValues) -> dict[str, str] | None:
        """The names that could not be set, each with the reason; None where the worker did not live through it."""
        match await ask(self._worker, message, _LOADING_SECONDS):
            case ValuesSet(failures=failures):
                return failures
            case _:
                return None

    # --- between statements -------------------------------------------------------------------------------------------

    async def _tick(self, past: PastTick) -> Culprit | None:
        revisions = await self._past.looks(past.revisions)
        self._worker.send(Tick(past.round_id, past.now, True, revisions, past.after_reading))
        self._ticks += 1
        is_large = sum(revision.size for revision in past.revisions) >= _TICK_BYTES
        return await self._ticked() if is_large or self._ticks == _TICKS_AT_ONCE else None

    async def _ticked(self) -> Culprit | None:
        """Waits for the ticks that are on their way; the statement before them is what ended a worker there."""
        while self._ticks:
            self._ticks -= 1
            match await self._worker.receive(anyio.move_on_after(_REQUEST_SECONDS)):
                case Ticked():
                    pass
                case _:
                    return Culprit(self._last)
        return None

    async def _know(self, revisions: Sequence[PastRevision], after_reading: bool = False) -> None:
        """Has the nodes know what was seen in a step that does not run again, and what was read before it."""
        if revisions or after_reading:
            self._worker.send(Known(await self._past.looks(revisions), after_reading))

    async def _settle(self) -> list[str] | Culprit:
        self._worker.send(Settle(self._plan.after_reading))
        match await self._worker.receive(anyio.move_on_after(_REQUEST_SECONDS)):
            case Settled(sentences=sentences):
                return [*self._sentences, *map(bounded, sentences)]
            case _:
                # What the last statement started may have ended it meanwhile.
                return Culprit(self._last if self._left_out.checks else None)


def _batches(groups: Iterable[ValueGroup]) -> Iterable[tuple[ValueGroup, ...]]:
    """The groups as they are sent, the small ones first: functions and classes are, and others may need them."""
    batch: list[ValueGroup] = []
    size = 0
    for group in sorted(groups, key=lambda group: len(group.data)):
        if batch and size + len(group.data) > _BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(group)
        size += len(group.data)
    if batch:
        yield tuple(batch)


def _names(diff: NamespaceDiff) -> Iterable[str]:
    return (*diff.added, *diff.changed, *diff.unknown, *diff.deleted)


async def _no_effects(request: EffectRequest) -> EffectAnswer:
    raise EnvironmentUnavailableError(f"{request.operation} is not available in a replay")


def _discard_output(stream: Literal["stdout", "stderr"], text: str) -> None:
    del stream, text
