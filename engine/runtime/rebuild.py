"""Rebuilds a namespace: runs a history again in a fresh worker, each step with its recorded inputs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

import anyio

from ..core.errors import EnvironmentUnavailableError, StatementLostError
from ..core.execution import NamespaceDiff
from ..core.ids import ExecutionId
from ..core.text import more
from ..log.past import (
    Comparison,
    Contents,
    PastExecution,
    PastLooks,
    PastRebuild,
    PastRevision,
    PastStep,
    PastTick,
    Restored,
    RestorePlan,
    ValueGroup,
)
from ..log.statements import RunOutcome, RunRequest
from .connection import Connection
from .environment import Limits
from .rebuild_inputs import (
    EARLIER,
    STOPPED,
    Culprit,
    KeptValues,
    LeftOut,
    PastContents,
    Wanted,
    bounded,
    outcome_of,
    sentence,
    skipped,
    told,
)
from .replay_run import TICK_SECONDS, Ahead, Prepared, ReplayRun, discard_output, no_effects, recording_of, tick_message
from .statement_run import LOADING_SECONDS, Recording, StatementRun, ask
from .worker.protocol import Known, Outlined, Settle, Settled, SetValues, Ticked, ValuesSet

# The names of statements that do not run again, or come out otherwise: set from what was kept of them, or named.
#
# Owns what is kept as of each step, the requests that have values set, and what is said of a statement that came out
# differently. Where the worker has set them by itself (`ReplayRun`), what it set is worked out here in the same way.
# Must not know how a statement is run. Used by `attempt`, one for each.

_TOLD: Final = ("came out differently",)
"""Of a statement of which somebody else says what came out differently."""
_BATCH_BYTES: Final = 64 << 20
"""Of values that are sent together, as far as they are several groups."""


class BroughtBack:
    """The names after each step. `unloaded` are positions whose copies are not loaded. `sentences` are for a report.

    `behind` are earlier steps, of which nothing is to be said: what was kept of them counts for those that come.
    """

    def __init__(
        self,
        worker: Connection,
        steps: Sequence[PastStep],
        past: PastContents,
        compare: Comparison,
        unloaded: Collection[int],
        behind: Sequence[PastStep] = (),
    ) -> None:
        self._worker = worker
        self._steps = steps
        self._past = past
        self._compare = compare
        self._unloaded = unloaded
        self._kept = KeptValues()
        self._behind = behind
        self._taken = 0
        self.sentences: list[str] = []
        self.without: set[str] = set()
        """Names that had no copy when one was needed, and have had none since."""
        self.has_set = False
        """Whether the worker was asked to set or delete any, which it does under its guard."""

    async def skip(self, position: int, past: PastExecution, fault: str | None, last: int) -> Culprit | None:
        """Brings back the names of a statement that does not run again, with a `fault` for that.

        `last` is the position of the one that ran last: deleting a name may call what that has left.
        """
        self._take_until(position)
        wanted = self._kept.wanted((*past.bound, *past.unbound))
        return await self._bring_back(position, past, skipped(past, fault), wanted, last)

    async def rebuild(self, position: int, past: PastRebuild, last: int) -> Culprit | None:
        """Sets what an earlier rebuild has left where it had no copy, which is told of the statement that bound it."""
        self._take_until(position)
        came = await self._set_all(position, self._kept.wanted((*past.anew, *past.absent)), last)
        return came if isinstance(came, Culprit) else None

    async def compared(self, position: int, past: PastExecution, outcome: RunOutcome) -> Culprit | None:
        """Brings back the names of a statement that ran again, as far as it came out otherwise."""
        phrases, wanted = self._wanted(position, past, outcome)
        return await self._bring_back(position, past, phrases, wanted, position) if phrases else None

    def was_set(
        self,
        position: int,
        past: PastExecution,
        outcome: RunOutcome,
        failures: dict[str, str],
    ) -> None:
        """The same, where the worker had the copies: all of them, and some could not be set."""
        phrases, wanted = self._wanted(position, past, outcome)
        set_names, without = [name for names in wanted.groups.values() for name in names], wanted.without | failures
        self._note(set_names, wanted, without)
        self._say(past, phrases, set_names, without)

    def _wanted(self, position: int, past: PastExecution, outcome: RunOutcome) -> tuple[Sequence[str], Wanted]:
        different = self._compare(past, outcome)
        phrases = told(outcome.stops, different.phrases)
        if phrases and different.is_told:
            phrases = _TOLD
        if not phrases:
            return (), Wanted()
        self._take_until(position)
        names = (*past.bound, *past.unbound, *_names(outcome.diff))
        return phrases, self._kept.wanted(names, different.same)

    def _take_until(self, position: int) -> None:
        # Only where something came out otherwise, because most often nothing does, and a history is long.
        self._take((*self._behind, *self._steps[self._taken : position + 1]))
        self._behind = ()
        self._taken = max(self._taken, position + 1)

    def _take(self, steps: Iterable[PastStep]) -> None:
        for step in steps:
            if isinstance(step, PastExecution):
                self._kept.take(step)
            elif isinstance(step, PastRebuild):
                self._kept.take_rebuild(step)

    async def _bring_back(
        self, position: int, past: PastExecution, phrases: Sequence[str], wanted: Wanted, last: int
    ) -> Culprit | None:
        """Sets what is kept of a step's names; says what it came to, unless a stopped one has all its names back."""
        came = await self._set_all(position, wanted, last)
        if isinstance(came, Culprit):
            return came
        self._say(past, phrases, *came)
        return None

    async def _set_all(
        self, position: int, wanted: Wanted, last: int
    ) -> tuple[Sequence[str], dict[str, str]] | Culprit:
        """The names that were set, and those without a copy, each with the reason."""
        without = dict(wanted.without)
        groups: list[ValueGroup] = []
        for data, names in zip(await self._past.values(wanted.groups), wanted.groups.values(), strict=True):
            if isinstance(data, str):
                without |= dict.fromkeys(names, f"its copy {data}")
            elif position in self._unloaded:
                without |= dict.fromkeys(names, "loading its copy ended the worker")
            else:
                groups.append(ValueGroup(names, data))
        for batch in _batches(groups):
            failures = await self._set(SetValues(batch))
            if failures is None:
                return Culprit(position, is_loading=True)
            without |= failures
        if wanted.delete and await self._set(SetValues((), wanted.delete)) is None:
            return Culprit(last)
        set_names = [name for group in groups for name in group.names]
        self._note(set_names, wanted, without)
        return set_names, without

    def _note(self, set_names: Iterable[str], wanted: Wanted, without: dict[str, str]) -> None:
        self.without.difference_update(set_names, wanted.delete)
        # What a log of an earlier version does not tell, the copies would not find either.
        self.without.update(name for name, reason in without.items() if reason != EARLIER)

    def _say(
        self, past: PastExecution, phrases: Sequence[str], set_names: Iterable[str], without: dict[str, str]
    ) -> None:
        brought = [name for name in set_names if name not in without]
        if without or (phrases and phrases is not _TOLD):
            *others, last = phrases or (STOPPED.format(past.status),)
            said = "; ".join([last, *outcome_of(brought, without)])
            self.sentences += [sentence(past.request.label, phrase) for phrase in (*others, said)]

    async def _set(self, message: SetValues) -> dict[str, str] | None:
        """The names that could not be set, each with the reason; None where the worker did not live through it."""
        self.has_set = True
        match await ask(self._worker, message, LOADING_SECONDS):
            case ValuesSet(failures=failures):
                return failures
            case _:
                return None


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


# attempt:
# One way through a history in a fresh worker: each step sees what it saw then.
#
# Steps go to the worker in stretches, which it goes through by itself (`ahead`, `replay_run`). What it cannot decide
# there, and each step that is to be taken alone, is done here, one after the other. A statement that does not run
# again (it was stopped, its source is not kept, or it ended a worker) has the names that it bound set from what was
# kept of them. So has one that is stopped now, or that comes out differently: the next statement is to find what it
# found then. What has no copy is named. Must not know why something is left out, which is `rebuild`'s business, nor
# the log.

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


# rebuild:
# Rebuilds a namespace: goes through a history again in a fresh worker, without what ends the worker or breaks it.
#
# Owns the search for culprits. An attempt goes through all steps; the statement at which its worker dies is left out,
# and the next attempt begins anew, because nothing is left of a worker. But a worker may be ended from outside, by a
# user or for want of memory, and the statement has no part in that: only one at which two workers die in succession
# is left out.
#
# A statement may also leave a worker in which nothing runs any more (it replaced what Python itself needs), and then
# it is the next one that seems to fail. So the end of each attempt is a check that a trivial statement still runs;
# and from the first failure on that is checked after each statement. A statement that was left out before there were
# checks, and follows one that fails its check, is taken in again: it may be innocent. Loading what was kept of a
# statement runs code of the statements' own, too; where that ends the worker, it is not loaded again. After
# SEARCH_SECONDS whatever seems a culprit is taken for one and all that follows it is left out, so the search ends.
# Where an attempt could not tell two statements apart, because one had begun when the other was to be stopped, all
# further ones ask for each by itself.
#
# Must not know what a step is, nor the log. Called by `connected_environment`.

SEARCH_SECONDS: Final = 60.0
"""After the first worker was lost, so long each culprit is looked for by itself."""
KEPT_SENTENCES: Final = 200
"""In one report; the others are counted."""
_LATE: Final = "came after it, when the time for finding out was over, and was left out"


class Rebuild:
    """One rebuild.

    Args:
        start: gives a fresh worker in place of the last; raises EnvironmentUnavailableError where it cannot.
        limits: of the statements.
        contents: what the plan names by its digest.
        compare: says what came out differently.
        begins: is told of each execution that runs again, when it begins.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Connection]],
        limits: Limits,
        contents: Contents,
        compare: Comparison,
        begins: Callable[[PastExecution], None],
    ) -> None:
        self._start = start
        self._limits = limits
        self._contents = contents
        self._compare = compare
        self._begins = begins
        self._left_out = LeftOut()
        self._suspect: Culprit | None = None
        self._unproven: int | None = None
        self._deadline: float | None = None

    async def run(self, plan: RestorePlan) -> Restored:
        """Leaves the last worker with all of the plan that can be had again.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or not even an empty one works.
            StatementLostError: the culprit is one that the plan will not have left out.
        """
        while True:
            worker = await self._start()
            attempt = Attempt(worker, plan, self._limits, self._contents, self._compare, self._left_out, self._begins)
            found = await attempt.run()
            if not isinstance(found, Culprit):
                return Restored(
                    executions=attempt.executions,
                    divergences=_bounded(found),
                    anew=attempt.anew,
                    absent=attempt.absent,
                )
            if found.is_unclear:
                self._left_out.alone = True
                continue
            _check_may_be_left_out(found, plan)
            self._deadline = self._deadline or anyio.current_time() + SEARCH_SECONDS
            is_late = anyio.current_time() >= self._deadline
            if found.position is None or found == self._suspect or is_late:
                self._leave_out(found, len(plan.steps) if is_late else 0)
                found = None
            self._suspect = found

    def _leave_out(self, culprit: Culprit, end: int) -> None:
        """Leaves the culprit out, and all from it to `end`."""
        position, left_out = culprit.position, self._left_out
        if position is None:
            left_out.checks = True
            return
        if position < 0:
            raise EnvironmentUnavailableError("not even an empty namespace works")
        if culprit.is_loading:
            left_out.values.add(position)
            return
        if self._unproven is not None and left_out.checks and position < self._unproven:
            del left_out.statements[self._unproven]
        self._unproven = None if left_out.checks else position
        left_out.checks = True
        left_out.statements[position] = f"{culprit.fault} and was left out"
        for later in range(position + 1, end):
            left_out.statements.setdefault(later, _LATE)


def _check_may_be_left_out(culprit: Culprit, plan: RestorePlan) -> None:
    position = culprit.position
    if position is None or plan.whole_from is None or position < plan.whole_from:
        return
    step = plan.steps[position]
    assert isinstance(step, PastExecution)
    raise StatementLostError(step.request.label, culprit.fault)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    left = len(sentences) - KEPT_SENTENCES
    return (*sentences[:KEPT_SENTENCES], more(left, "sentence")) if left > 0 else tuple(sentences)
