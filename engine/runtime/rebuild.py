"""Rebuilds a namespace: runs a history again in a fresh worker, and skips what kills the worker or breaks it.

`Rebuild` makes attempts and searches the failing step. If a worker dies, the next attempt starts again from the
beginning, because nothing is left of the worker. A worker may also be killed from outside, by a user or for lack of
memory. So a statement is skipped only if two workers in a row die at it.

A statement may also leave a worker in which nothing runs any more, because it replaced something that Python needs.
Then the next statement seems to fail. So each attempt ends with a check that a trivial statement runs, and after the
first failure that is checked after each statement. A statement that was skipped before there were checks, and follows
one that fails its check, is tried again, because it may be innocent. Loading kept values runs user code too. If that
kills the worker, those values are not loaded again. After SEARCH_SECONDS the next failing statement and all after it
are skipped, so the search ends. If an attempt cannot tell two statements apart, because one had begun when the other
was interrupted, later attempts send each statement alone.

`Attempt` is one pass. It sends steps in stretches, which the worker runs alone (`replay_run`), and performs the other
steps one by one. `ValueRestorer` sets names of a statement that does not run again, was stopped, or differs, from their
kept values, because the next statement must find what it found originally. The report names those without a copy.

Must not know the log. Called by `worker_environment`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Literal

import anyio
from msgspec import Struct, field

from ..core.errors import EnvironmentUnavailableError, StatementLostError
from ..core.execution import NamespaceDiff
from ..core.ids import ExecutionId
from ..core.text import cut_line, more, printable
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
from .rebuild_contents import EARLIER, KeptValues, PastContents, Wanted
from .replay_run import (
    TICK_SECONDS,
    Prepared,
    ReplayPrefetch,
    ReplayRun,
    discard_output,
    no_effects,
    recording_of,
    tick_message,
)
from .statement_run import LOADING_SECONDS, Recording, StatementRun, ask
from .worker.guarding.guard import replaying
from .worker.protocol import Known, Outlined, Settle, Settled, SetValues, Ticked, ValuesSet

_TOLD: Final = ("came out differently",)
"""The phrase for a statement whose differences another report lists."""
_BATCH_BYTES: Final = 64 << 20
"""Size of the groups of values that are sent together."""
_TICKS_AT_ONCE: Final = 32
"""Ticks that are sent without waiting: a history has more ticks than statements."""
_TICK_BYTES: Final = 1 << 20
"""Size of a tick's files from which the next one waits, to limit the memory."""
_CHECK: Final = RunRequest(execution_id=ExecutionId("check"), label="<check>", source="0\nNone", time_limit=10.0)
"""Runs in every working worker, and changes no name."""
SEARCH_SECONDS: Final = 60.0
"""Time of the search for single failing steps after the first loss of a worker."""
KEPT_SENTENCES: Final = 200
"""Sentences in one report; the rest is a count."""
_LATE: Final = "was left out, because it follows a failed statement and the time limit was reached"
_SENTENCE_CHARS: Final = 500
_NAME_CHARS: Final = 80
_SHOWN_NAMES: Final = 20
_STOPPED: Final = "was stopped ({}), and is not run again"
"""A sentence's end for a statement of that status."""


class FailedStep(Struct, frozen=True):
    """The step that ended an attempt: its position, None if unknown, -1 before the first.

    `is_loading`: loading the step's kept values failed, not its statement. `is_unclear`: the attempt must be repeated
    step by step to find out.
    """

    position: int | None
    fault: Literal["ended the worker", "broke its Python process"] = "broke its Python process"
    is_loading: bool = False
    is_unclear: bool = False


class SkippedSteps(Struct):
    """What the next attempt must not do.

    `statements` are skipped positions, each with a reason; `values` are positions whose values are not loaded. With
    `checks` a trivial statement runs after each one. With `alone` each step is sent alone.
    """

    statements: dict[int, str] = field(default_factory=dict[int, str])
    values: set[int] = field(default_factory=set[int])
    checks: bool = False
    alone: bool = False


class Rebuild:
    """One rebuild.

    Args:
        start: starts a fresh worker in place of the last. Raises EnvironmentUnavailableError.
        limits: the limits of statements.
        contents: loads the contents that the plan names by digest.
        compare: finds the differences of an outcome.
        begins: called for each execution that runs again, when it begins.
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
        self._skipped = SkippedSteps()
        self._suspect: FailedStep | None = None
        self._unproven: int | None = None
        self._deadline: float | None = None

    async def run(self, plan: RestorePlan) -> Restored:
        """Run the plan; the last worker then has everything that could be rebuilt.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or even an empty one fails.
            StatementLostError: the plan does not allow skipping the failed step.
        """
        while True:
            worker = await self._start()
            attempt = Attempt(worker, plan, self._limits, self._contents, self._compare, self._skipped, self._begins)
            found = await attempt.run()
            if not isinstance(found, FailedStep):
                return Restored(
                    executions=attempt.executions,
                    divergences=_bounded(found),
                    healed=attempt.healed,
                    anew=attempt.anew,
                    absent=attempt.absent,
                )
            if found.is_unclear:
                self._skipped.alone = True
                continue
            _check_may_be_skipped(found, plan)
            self._deadline = self._deadline or anyio.current_time() + SEARCH_SECONDS
            is_late = anyio.current_time() >= self._deadline
            if found.position is None or found == self._suspect or is_late:
                self._skip(found, len(plan.steps) if is_late else 0)
                found = None
            self._suspect = found

    def _skip(self, failed: FailedStep, end: int) -> None:
        """Skip the failed step, and all after it up to `end`."""
        position, skipped_steps = failed.position, self._skipped
        if position is None:
            skipped_steps.checks = True
            return
        if position < 0:
            raise EnvironmentUnavailableError("a new worker failed even with an empty namespace")
        if failed.is_loading:
            skipped_steps.values.add(position)
            return
        if self._unproven is not None and skipped_steps.checks and position < self._unproven:
            del skipped_steps.statements[self._unproven]
        self._unproven = None if skipped_steps.checks else position
        skipped_steps.checks = True
        skipped_steps.statements[position] = f"{failed.fault} and was left out"
        for later in range(position + 1, end):
            skipped_steps.statements.setdefault(later, _LATE)


def _check_may_be_skipped(failed: FailedStep, plan: RestorePlan) -> None:
    position = failed.position
    if position is None or plan.whole_from is None or position < plan.whole_from:
        return
    step = plan.steps[position]
    assert isinstance(step, PastExecution)
    raise StatementLostError(step.request.label, failed.fault)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    left = len(sentences) - KEPT_SENTENCES
    return (*sentences[:KEPT_SENTENCES], more(left, "sentence")) if left > 0 else tuple(sentences)


# --- one attempt ------------------------------------------------------------------------------------------------------


class Attempt:
    """One pass through a history in a fresh worker. `executions` counts the statements that ran again."""

    def __init__(
        self,
        worker: Connection,
        plan: RestorePlan,
        limits: Limits,
        contents: Contents,
        compare: Comparison,
        skipped_steps: SkippedSteps,
        begins: Callable[[PastExecution], None],
    ) -> None:
        self._worker = worker
        self._plan = plan
        self._limits = limits
        self._past = PastContents(contents, plan.steps)
        is_alone = skipped_steps.alone or skipped_steps.checks
        alone = range(len(plan.steps)) if is_alone else skipped_steps.statements
        self._prefetch = ReplayPrefetch(plan.steps, self._past, alone, skipped_steps.values)
        self._skipped = skipped_steps
        self._begins = begins
        self._names = ValueRestorer(worker, plan.steps, self._past, compare, skipped_steps.values, plan.behind)
        self._last = -1
        """The position of the last statement that ran."""
        self._ticks = 0
        """Ticks without an answer yet."""
        self.executions = 0
        self.anew: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        self.healed: tuple[str, ...] = ()
        """As in `Restored`, at the end."""

    async def run(self) -> list[str] | FailedStep:
        """Return the sentences on differences if the worker survived all steps, else the failed step."""
        if self._plan.tiers:
            self._worker.send(Outlined(self._plan.tiers))
        while (position := self._prefetch.position) < len(self._plan.steps):
            await self._prefetch.prepare()
            stretch = self._prefetch.take()
            failed = await (self._stretch(stretch) if stretch else self._alone(position))
            if failed is not None:
                return failed
        if (failed := await self._ticked()) is not None:
            return failed
        if not self._skipped.checks and not await self._is_sound():
            return FailedStep(None)
        return await self._settle()

    # --- in stretches ------------------------------------------------------------------------------------------------

    async def _stretch(self, stretch: Sequence[Prepared]) -> FailedStep | None:
        run = ReplayRun(self._worker, stretch, self._limits, self._was_restored, self._prefetch.prepare, self._begins)
        if (failed := await self._ticked()) is not None:
            return failed
        await run.conduct()
        if run.is_unclear:
            return FailedStep(None, is_unclear=True)
        begun = run.begun
        for prepared in begun:
            if isinstance(prepared.step, PastExecution):
                self._last = prepared.position
                self.executions += 1
        if self._worker.dead:
            return self._ended(begun, is_loading=run.is_loading)
        if run.over < len(stretch):
            self._prefetch.put_back(stretch[run.over :])
        if run.came is not None:
            present = begun[-1]
            assert isinstance(present.step, PastExecution)
            return await self._names.compared(present.position, present.step, run.came)
        return None

    def _ended(self, begun: Sequence[Prepared], *, is_loading: bool) -> FailedStep:
        """If none has begun, a tick failed. Ticks run no statement, so the last statement is the cause."""
        if is_loading:
            return FailedStep(self._last, is_loading=True)
        return FailedStep(self._last, "ended the worker") if begun else FailedStep(self._last)

    def _was_restored(self, prepared: Prepared, outcome: RunOutcome, failures: dict[str, str]) -> None:
        assert isinstance(prepared.step, PastExecution)
        self._names.was_set(prepared.position, prepared.step, outcome, failures)

    # --- one after the other -----------------------------------------------------------------------------------------

    async def _alone(self, position: int) -> FailedStep | None:
        self._prefetch.skip()
        match self._plan.steps[position]:
            case PastLooks(revisions=revisions):
                return await self._know(revisions)
            case PastTick() as step:
                return await self._tick(step)
            case PastExecution() as step:
                return await self._ticked() or await self._statement(position, step)
            case PastRebuild() as step:
                return await self._ticked() or await self._names.rebuild(position, step, self._last)

    async def _statement(self, position: int, past: PastExecution) -> FailedStep | None:
        fault = self._skipped.statements.get(position)
        if fault is not None or not past.again:
            await self._know(past.revisions or (), past.after_reading)
            return await self._names.skip(position, past, fault, self._last)
        self._last = position
        self.executions += 1
        self._begins(past)
        recording = await recording_of(past, self._past)
        outcome = await self._run(past.request, recording)
        if self._worker.dead:
            return FailedStep(position, "ended the worker")
        failed = await self._names.compared(position, past, outcome)
        if failed is not None:
            return failed
        return FailedStep(position) if self._skipped.checks and not await self._is_sound() else None

    async def _run(self, request: RunRequest, recording: Recording) -> RunOutcome:
        self._send_contents()
        return await self._conduct(request, recording)

    async def _conduct(self, request: RunRequest, recording: Recording | None) -> RunOutcome:
        return await StatementRun(self._worker, request, self._limits, no_effects, discard_output, recording).conduct()

    async def _is_sound(self) -> bool:
        # Arming the guard takes as long as everything else, so the check is not guarded if nothing was. If something
        # was, a statement without guard would disarm it too early.
        is_guarded = self.executions or self._names.has_set
        outcome = await self._conduct(_CHECK, Recording() if is_guarded else None)
        return outcome.status == "ok" and not self._worker.dead

    # --- between statements ------------------------------------------------------------------------------------------

    async def _tick(self, past: PastTick) -> FailedStep | None:
        message = await tick_message(past, self._past)
        self._send_contents()
        self._worker.send(message)
        self._ticks += 1
        is_large = sum(revision.size for revision in past.revisions) >= _TICK_BYTES
        return await self._ticked() if is_large or self._ticks == _TICKS_AT_ONCE else None

    async def _ticked(self) -> FailedStep | None:
        """Wait for the answers to ticks. If the worker dies there, the statement before them is the cause."""
        while self._ticks:
            self._ticks -= 1
            match await self._worker.receive(anyio.move_on_after(TICK_SECONDS)):
                case Ticked():
                    pass
                case _:
                    return FailedStep(self._last)
        return None

    async def _know(self, revisions: Sequence[PastRevision], after_reading: bool = False) -> None:
        """Tell the views what they saw in a step that does not run again, and what was read before it."""
        if revisions or after_reading:
            looks = await self._past.looks(revisions)
            self._send_contents()
            self._worker.send(Known(looks, after_reading))

    def _send_contents(self) -> None:
        for content in self._past.take_unsent():
            self._worker.send(content)

    async def _settle(self) -> list[str] | FailedStep:
        self._worker.send(Settle(self._plan.after_reading, tuple(self._names.without)))
        match await self._worker.receive(anyio.move_on_after(TICK_SECONDS)):
            case Settled(sentences=sentences, absent=absent):
                self.absent = tuple(sorted(absent))
                self.healed = tuple(self._names.healed[:KEPT_SENTENCES])
                self.anew = tuple(sorted(self._names.without.difference(absent)))
                return [*self._names.sentences, *map(_cut, sentences)]
            case _:
                # A process of the last statement may have killed it meanwhile.
                return FailedStep(self._last if self._skipped.checks else None)


# --- kept values ------------------------------------------------------------------------------------------------------


class ValueRestorer:
    """Sets names from kept values during one attempt; `sentences` are for the report.

    `unloaded` are the positions of steps whose values must not be loaded. `behind` are earlier steps: their values are
    used, but they are not reported. If the worker has already set values (`ReplayRun`), `was_set` computes the same
    result here.
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
        self.healed: list[str] = []
        """The sentences of statements whose names all have their earlier values."""
        self.without: set[str] = set()
        """Names that needed a copy, had none, and were not set since."""
        self.has_set = False
        """Whether the worker has set or deleted any, which arms its guard."""

    async def skip(self, position: int, past: PastExecution, fault: str | None, last: int) -> FailedStep | None:
        """Set the names of a statement that does not run again, because of `fault`.

        `last` is the position of the last statement that ran: deleting a name may call its finalizers.
        """
        self._take_until(position)
        wanted = self._kept.wanted((*past.bound, *past.unbound))
        return await self._bring_back(position, past, _skipped(past, fault), wanted, last)

    async def rebuild(self, position: int, past: PastRebuild, last: int) -> FailedStep | None:
        """Set the names for which an earlier rebuild had no copy. The statement that bound them is reported."""
        self._take_until(position)
        came = await self._set_all(position, self._kept.wanted((*past.anew, *past.absent)), last)
        return came if isinstance(came, FailedStep) else None

    async def compared(self, position: int, past: PastExecution, outcome: RunOutcome) -> FailedStep | None:
        """Set the names of a statement that ran again, if it differs."""
        phrases, wanted = self._wanted(position, past, outcome)
        return await self._bring_back(position, past, phrases, wanted, position) if phrases else None

    def was_set(
        self,
        position: int,
        past: PastExecution,
        outcome: RunOutcome,
        failures: dict[str, str],
    ) -> None:
        """Report on a statement whose names the worker has set from all copies, apart from `failures`."""
        phrases, wanted = self._wanted(position, past, outcome)
        set_names, without = [name for names in wanted.groups.values() for name in names], wanted.without | failures
        self._note(set_names, wanted, without)
        self._say(past, phrases, set_names, without)

    def _wanted(self, position: int, past: PastExecution, outcome: RunOutcome) -> tuple[Sequence[str], Wanted]:
        different = self._compare(past, outcome)
        phrases = _told(outcome.stops, different.phrases)
        if phrases and different.is_told:
            phrases = _TOLD
        if not phrases:
            return (), Wanted()
        self._take_until(position)
        names = (*past.bound, *past.unbound, *_names(outcome.diff))
        return phrases, self._kept.wanted(names, different.same)

    def _take_until(self, position: int) -> None:
        # Only after a difference: differences are rare, and a history is long.
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
    ) -> FailedStep | None:
        """Set a step's names from kept values, and report it, unless it was stopped and has all its names back."""
        came = await self._set_all(position, wanted, last)
        if isinstance(came, FailedStep):
            return came
        self._say(past, phrases, *came)
        return None

    async def _set_all(
        self, position: int, wanted: Wanted, last: int
    ) -> tuple[Sequence[str], dict[str, str]] | FailedStep:
        """Return the names that were set, and those without a copy with their reasons."""
        without = dict(wanted.without)
        groups: list[ValueGroup] = []
        for data, names in zip(await self._past.values(wanted.groups), wanted.groups.values(), strict=True):
            if isinstance(data, str):
                without |= dict.fromkeys(names, f"its copy {data}")
            elif position in self._unloaded:
                without |= dict.fromkeys(names, "loading the copy ended the worker")
            else:
                groups.append(ValueGroup(names, data))
        for batch in _batches(groups):
            failures = await self._set(SetValues(batch))
            if failures is None:
                return FailedStep(position, is_loading=True)
            without |= failures
        if wanted.delete and await self._set(SetValues((), wanted.delete)) is None:
            return FailedStep(last)
        set_names = [name for group in groups for name in group.names]
        self._note(set_names, wanted, without)
        return set_names, without

    def _note(self, set_names: Iterable[str], wanted: Wanted, without: dict[str, str]) -> None:
        self.without.difference_update(set_names, wanted.delete)
        # A log of an earlier version has no copies at all.
        self.without.update(name for name, reason in without.items() if reason != EARLIER)

    def _say(
        self, past: PastExecution, phrases: Sequence[str], set_names: Iterable[str], without: dict[str, str]
    ) -> None:
        brought = [name for name in set_names if name not in without]
        if without or (phrases and phrases is not _TOLD):
            *others, last = phrases or (_STOPPED.format(past.status),)
            said = "; ".join([last, *_outcome_of(brought, without)])
            said_now = [_sentence(past.request.label, phrase) for phrase in (*others, said)]
            self.sentences += said_now
            self.healed += [] if without else said_now

    async def _set(self, message: SetValues) -> dict[str, str] | None:
        """Return the names that could not be set with their reasons; None if the worker died."""
        self.has_set = True
        match await ask(self._worker, message, LOADING_SECONDS):
            case ValuesSet(failures=failures):
                return failures
            case _:
                return None


def _batches(groups: Iterable[ValueGroup]) -> Iterable[tuple[ValueGroup, ...]]:
    """Batch the groups, small ones first, because they are functions and classes that others may need."""
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


# --- sentences of the report ------------------------------------------------------------------------------------------


def _skipped(past: PastExecution, fault: str | None) -> Sequence[str]:
    """Why a statement did not run again. Empty if it was stopped originally, because that is known."""
    if fault is not None:
        return (fault,)
    if past.hindrance:
        return (past.hindrance,)
    stopped = past.status in ("cancelled", "timeout")
    return () if stopped else ("had a secret in its source, which is not saved, so it was not run again",)


def _told(stops: Sequence[str], differences: Sequence[str]) -> Sequence[str]:
    """Combine the phrases on a statement. If the guard ended it, as is usual, one phrase says both."""
    for stop in stops:
        reason = f": {replaying(stop)}"
        if differences and reason in differences[0]:
            return ("; ".join((*stops, differences[0].replace(reason, "", 1), *differences[1:])),)
    return (*stops, *differences)


def _outcome_of(brought: Collection[str], without: dict[str, str]) -> Iterable[str]:
    """Phrases on the names that were set, and on those without a copy, by reason."""
    if brought:
        yield f"{_listed(brought)} restored from copies"
    if without:
        by_reason: dict[str, list[str]] = {}
        for name, reason in without.items():
            by_reason.setdefault(reason, []).append(name)
        yield "no copy of " + ", ".join(f"{_listed(names)} ({reason})" for reason, names in by_reason.items())


def _listed(names: Collection[str]) -> str:
    # A statement can create a name with a newline.
    shown = [cut_line(printable(name), _NAME_CHARS) for name in sorted(names)[:_SHOWN_NAMES]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _sentence(label: str, phrase: str) -> str:
    """A sentence on one statement."""
    return _cut(f"{label} {phrase}")


def _cut(text: str) -> str:
    """Cut a sentence to the report's limit."""
    return cut_line(text, _SENTENCE_CHARS)
