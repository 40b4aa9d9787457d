"""A session's environment: started when it is first needed, rebuilt when it is lost, ended when its rights change.

`LiveEnvironment` hides whether there is no worker yet, a living one, or a dead one: its users get a living one, and a
worker that dies before it did anything is replaced. A worker in another sandbox than the session needs now is replaced,
too, because a sandbox is never loosened. Must not know what runs in it. Used by the agent loop, `statements`, `past`
and commands. Over 500 lines, because start, loss, rebuild and change of sandbox share one lock, one worker and one
state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec
import xxhash
from msgspec.structs import replace

from ..core.domain import Domain, Layer, is_held
from ..core.errors import EnvironmentUnavailableError, StatementLostError, StoreError
from ..core.execution import REPLAY_EFFECT
from ..core.ids import BlobDigest, ExecutionId, Minter
from ..core.pictures import GivenPicture, Picture
from ..core.text import more
from ..files.sources import Buffers
from ..log.comparison import bound_names, differences, ending_of
from ..log.events.execution import ExecutionFinished
from ..log.events.session import EnvironmentRestored
from ..log.facts import Readings
from ..log.past import Comparison, Differences, PastExecution, Restored, RestorePlan
from ..log.rebuild_plan import History, observed_steps, observing
from ..log.statements import RunOutcome
from ..runtime.environment import Environment
from .cancellation import Cancellation
from .confinement import Confinement
from .directories import gone
from .journal import StatementRerun
from .parts import SessionParts
from .saved_state import CheckpointSaver, ValueSaver

FIRST_SECONDS: Final = 1.0
"""A shorter rebuild is not reported."""
_MOST_SECONDS: Final = 5.0
"""The longest time between two signals. It grows up to this, because each signal may be a line on a screen."""


T = TypeVar("T")
_REST_SECONDS: Final = 1.0
"""Interval of looks whether anything of a statement still runs."""
_LOOK_SECONDS: Final = 0.1
"""Until the outcome of a checkpoint is recorded, in an idle session."""
NOT_KEPT: Final = "made by a re-run, which saves only pictures of the first run"
_KEPT_SENTENCES: Final = 100
"""Sentences in one report on statements that did not run again."""
INTERRUPTED_SENTENCE: Final = "was interrupted by a crash and not run again; its names are missing"


Observer = Callable[[PastExecution, ExecutionFinished, ExecutionFinished, Differences, Sequence[str]], None]
"""Receives an execution that ran again: its record, the record that it would have now, how they differ, and phrases
on what was prevented."""


class LiveEnvironment:
    """One session's namespace, behind `runtime.environment.Environment`.

    Args:
        parts: the session's, with the log that a rebuild follows.
        readings: counts what models have read.
        values: saves the values that a rebuild may not reproduce.
        checkpoints: decides when the namespace itself is saved.
        confinement: decides in which sandbox the namespace must be.
    """

    def __init__(
        self,
        parts: SessionParts,
        readings: Readings,
        values: ValueSaver,
        checkpoints: CheckpointSaver,
        confinement: Confinement,
    ) -> None:
        self.step = asyncio.Lock()
        """Held from the start of a statement or tick until its events are on the log. What the log says about nodes
        belongs to the step around it."""
        self._changing = asyncio.Lock()
        """Held while a worker is started, rebuilt or ended. Otherwise a caller that ends it during a rebuild,
        because another past counts now, would leave a worker with the old past."""
        self._make = parts.environments
        self._environment: Environment | None = None
        self._buffers: Buffers | None = None
        self._spec = parts.spec
        self._log = parts.log
        self._readings = readings
        self._store = parts.store
        self._values = values
        self._checkpoints = checkpoints
        self._confinement = confinement
        self._progress = partial(RebuildProgress, parts.journal.signal, parts.minter)
        self._domain: Domain | None = None
        """The sandbox of the current environment and its checkpoints."""
        self._layers: tuple[Layer, ...] = ()
        """The layers that enforce it."""
        self._resting: asyncio.TimerHandle | None = None
        self._was_started = False
        self._lost: str | None = None
        """Why the worker of an environment that was given up had died, if that is not recorded yet."""
        self._reads = 0
        """How many readings the namespace knows of."""
        self._meta = msgspec.json.encode((parts.spec.cwd, parts.spec.import_paths))

    def has_read(self, seq: int) -> bool:
        """Return whether a model has read the event at that position of the log."""
        return seq < self._readings.until

    async def ready(self) -> Environment:
        """Return the living environment; start or rebuild it if necessary.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
        """
        async with self._changing:
            try:
                return await self._made_ready()
            finally:
                self.rest_guard()

    async def _made_ready(self) -> Environment:
        environment = await self._made()
        if environment.alive:
            await self._values.catch_up(environment)
            await self._hold(environment)
            if not environment.alive:
                environment = await self._made()
        if environment.alive:
            if self._readings.count > self._reads:
                environment.read()
        else:
            history = self._history()
            compare = partial(self._compare, history)
            await self._rebuild(environment, history, lambda: self._plan(history), compare)
            await self._hold(environment)
        self._reads = self._readings.count
        return environment

    async def _hold(self, environment: Environment) -> None:
        try:
            await self._confinement.hold(environment)
        except EnvironmentUnavailableError:
            await environment.end()  # another worker begins with all that is protected now

    def again(self, first: int, last: int) -> Sequence[PastExecution]:
        """Return the executions of statements `first` to `last` that a rebuild would run again."""
        return observed_steps(self._plan(self._history(), self._confinement.may_allow), first, last)

    async def replay(self, first: int, last: int, observe: Observer, *, answers: bool = True) -> None:
        """Run the whole history again in a fresh namespace, which then is what any rebuild would make.

        `observe` receives the executions that `again` named, and may end the replay by an exception. Then there is no
        namespace, and the next use rebuilds it. Without recorded `answers` the first tool call fails.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
            StatementLostError: one of these executions ended its worker.
        """
        async with self._changing:
            try:
                await self._replay(first, last, observe, answers=answers)
            finally:
                self.rest_guard()

    def rest_guard(self) -> None:
        """Leave new names from now on if nothing of a statement runs; else look again later."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if not self._confinement.guard.is_watching:
            return
        if self._environment is None or not self._environment.has_programs:
            self._confinement.guard.rest()
        else:
            self._resting = asyncio.get_running_loop().call_later(_REST_SECONDS, self.rest_guard)

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """Take away new names meanwhile, because the worker may run code of statements, such as methods of values."""
        self._confinement.guard.arm()
        try:
            yield
        finally:
            self._confinement.guard.disarm()
            self.rest_guard()

    async def _replay(self, first: int, last: int, observe: Observer, *, answers: bool) -> None:
        environment = await self._made(is_fresh=True)
        if environment.alive:
            await self._values.catch_up(environment)
        history = self._history()
        observed: dict[ExecutionId, PastExecution] = {}

        def compare(past: PastExecution, outcome: RunOutcome) -> Differences:
            before, after, found = self._compared(history, past, outcome)
            recorded = observed.get(past.request.execution_id)
            if recorded is None:
                return found
            observe(recorded, before, after, found, outcome.stops)
            return replace(found, is_told=True)

        def planned() -> RestorePlan:
            plan = self._plan(history)
            observed.update((past.request.execution_id, past) for past in observed_steps(plan, first, last))
            return observing(plan, first, last, answers=answers)

        await self._rebuild(environment, history, planned, compare)
        self._reads = self._readings.count

    async def _made(self, *, is_fresh: bool = False) -> Environment:
        """Return the environment of the wanted sandbox; end one of another, with its checkpoints.

        Another worker, which is needed for a fresh namespace or if there is none, begins with all that is protected
        now: statements run in it at once.
        """
        given_up = self._environment
        if given_up is None or is_fresh or not given_up.alive:
            is_changed = await anyio.to_thread.run_sync(self._confinement.renew)
            if is_changed and given_up is not None:
                self._lost = await given_up.loss()
                await self._end()
        wanted = self._confinement.wanted()
        if self._environment is not None and wanted != self._domain:
            await self._end()
        if self._environment is None:
            self._domain = wanted
            self._environment = made = self._make()
            made.follow(self._buffers)
            later = asyncio.get_running_loop().call_soon_threadsafe
            self._confinement.guard.end_programs = lambda: later(made.end_programs)  # which only a sandboxed one has
        return self._environment

    @property
    def confinement(self) -> Confinement:
        """Decides which rights statements have here, and had."""
        return self._confinement

    @property
    def is_sandboxed(self) -> bool:
        """Whether the kernel sandboxes statements in the current namespace."""
        return self._environment is not None and self._domain is not None and is_held(self._layers, self._domain)

    @property
    def domain(self) -> Domain | None:
        """The sandbox of statements; None if there is none."""
        return self._domain if self.is_sandboxed else None

    def _history(self) -> History:
        return History.of(self._log.events, self._log.branches.holds)

    def _plan(self, history: History, allows: Callable[[int], bool] | None = None) -> RestorePlan:
        return history.plan(self._spec.limits.statement_seconds, allows or self._confinement.allows)

    async def _rebuild(
        self, environment: Environment, history: History, planned: Callable[[], RestorePlan], compare: Comparison
    ) -> None:
        loss, self._lost = await environment.loss() or self._lost, None
        self._values.forget()
        self._checkpoints.record_outcomes(environment)
        # With a checkpoint, no empty namespace is needed, and starting one takes a while.
        if not (self._was_started and self._checkpoints.keeps):
            await self._start(environment)
        elif self._domain is not None:
            self._confinement.prepare(self._domain)
        # Now, because only a worker knows its sandbox, and that decides what may run again.
        try:
            await self._confinement.enter(self._domain, self._layers, history)
        except BaseException:
            # An empty namespace must not pass for the rebuilt one.
            with anyio.CancelScope(shield=True):
                await environment.end()
            raise
        plan, cut_off = planned(), _cut_off(history)
        restored, took = Restored(executions=0), 0.0
        if plan.steps:
            # From `whole_from` on it is a replay, which has its own events.
            steps = plan.steps[: plan.whole_from]
            silent = [step for step in steps if isinstance(step, PastExecution) and step.again]
            async with self._progress(environment, silent).reporting():
                started = anyio.current_time()
                try:
                    restored = await environment.restore(plan, self._contents, compare)
                except StatementLostError:
                    raise
                except EnvironmentUnavailableError as error:
                    raise gone(self._spec.cwd) or error from None
            took = anyio.current_time() - started
        elif not environment.alive:
            await self._start(environment)
        if plan.steps or cut_off:
            divergences = (*restored.divergences, *_left_out(history), *cut_off)
            await self._record(environment, restored, divergences, loss)
        last = next((step for step in reversed(plan.steps) if isinstance(step, PastExecution)), None)
        await self._checkpoints.rebuilt(environment, last and last.request.execution_id, took)

    async def _start(self, environment: Environment) -> None:
        if self._domain is not None:
            self._confinement.prepare(self._domain)
        try:
            await environment.start(replace(self._spec, domain=self._domain))
            narrowed = self._domain and self._confinement.narrowed(self._domain, environment.layers)
            if narrowed is not None:  # nothing has run in it yet
                self._domain = narrowed
                self._confinement.prepare(narrowed)
                await environment.start(replace(self._spec, domain=narrowed))
        except EnvironmentUnavailableError as error:
            raise gone(self._spec.cwd) or error from None
        self._was_started, self._layers = True, tuple(environment.layers)

    async def _record(
        self, environment: Environment, restored: Restored, divergences: tuple[str, ...], loss: str | None
    ) -> None:
        seq = self._log.append(
            EnvironmentRestored(
                executions=restored.executions,
                divergences=divergences,
                healed=restored.healed,
                anew=restored.anew,
                absent=restored.absent,
                loss=loss,
            )
        )
        if restored.anew:
            # At once, because the next statement finds these values, and so must its rerun.
            self._values.note(ExecutionId(self._log.at(seq).event_id), large=True)
            await self._values.catch_up(environment)

    async def statement_recorded(self, execution_id: ExecutionId, seconds: float, *, repeats: bool) -> None:
        """Take note of a recorded statement, whose state may be saved. Within `step`.

        It ran for `seconds`, and it `repeats` if a re-run would do the same.
        """
        if self._environment is not None:
            await self._checkpoints.after(self._environment, execution_id, seconds, repeats=repeats)

    def ready_now(self) -> Environment | None:
        """Return the living environment if it can take a statement without a wait.

        `record_values` must follow soon.
        """
        environment = self._environment
        if environment is None or self.step.locked() or not environment.idle:
            return None
        if self._confinement.wanted() != self._domain or not self._confinement.is_holding(environment):
            return None
        is_told = self._readings.count <= self._reads and not self._values.pending
        return environment if is_told and self._values.has_arrived(environment) else None

    def record_values(self) -> None:
        """Record the values that `ready_now` has found."""
        self._values.record()

    async def ready_to_run(self) -> Environment:
        """Return the living environment for a statement, after collecting saved values.

        Not while another statement runs.
        """
        environment = await self.ready()
        if not self._values.pending:
            return environment
        await self._values.collect(environment)
        return environment if environment.alive else await self.ready()

    def stopped(self) -> AbstractAsyncContextManager[bool] | None:
        """As `Environment.stopped`; None without an environment."""
        return None if self._environment is None else self._environment.stopped()

    def acting(self) -> AbstractAsyncContextManager[None]:
        """As `Environment.acting`; of a fresh environment if there is none."""
        return (self._environment or self._make()).acting()

    async def use(self, act: Callable[[Environment], Awaitable[T]], cancellation: Cancellation | None = None) -> T:
        """Return the result of `act`; retry once with a rebuilt environment if it died idle.

        A cancel cuts only the rebuild short: a worker in the middle of an answer would have to be replaced.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or the next one was lost too.
            WorkCancelledError: a cancel came before `act` began.
        """
        cancellation = cancellation or Cancellation()
        environment = await cancellation.guard(self.ready)
        try:
            with self._guarded():
                return await act(environment)
        except EnvironmentUnavailableError:
            if environment.alive:
                raise
        environment = await cancellation.guard(self.ready)
        with self._guarded():
            return await act(environment)

    def follow(self, buffers: Buffers | None) -> None:
        """Let views show an editor's unsaved texts, from the next step on."""
        self._buffers = buffers
        if self._environment is not None:
            self._environment.follow(buffers)

    @property
    def idle_delay(self) -> float | None:
        """Seconds of idleness after which there is work; None for never."""
        if self._environment is None:
            return None
        return _LOOK_SECONDS if self._checkpoints.waits and self._values.idle_delay is None else self._values.idle_delay

    async def run_idle_work(self) -> float | None:
        """Do the work for an idle session; return the seconds until more, or None."""
        if self._environment is None or not self._environment.alive:
            return None
        self._checkpoints.record_outcomes(self._environment)
        with self._guarded():
            await self._values.run_idle_work(self._environment)
        return self.idle_delay

    async def rest(self) -> None:
        """End the worker and its checkpoints. The next use rebuilds it."""
        async with self._changing:
            await self._end()

    @asynccontextmanager
    async def ended(self) -> AsyncGenerator[None]:
        """End the worker, and let its users wait until the block is left.

        Checkpoints stay, because they may fit what the log says then.
        """
        async with self._changing:
            environment = self._environment
            if environment is None or not self._checkpoints.keeps:
                await self._end()
            else:
                await self._leave(environment)
            yield

    async def _end(self) -> None:
        await self.close()
        self._environment, self._was_started = None, False

    async def _leave(self, environment: Environment) -> None:
        try:
            if environment.alive:
                await self._values.finish(environment)
        finally:
            await environment.end()
            self._checkpoints.record_outcomes(environment)

    async def renew(self) -> None:
        """End the worker, as `ended`."""
        async with self.ended():
            pass

    async def close(self) -> None:
        """End the worker after saving its values, as far as that is quick."""
        environment = self._environment
        if environment is not None:
            try:
                if environment.alive:
                    await self._values.finish(environment)
            finally:
                await environment.close()
        self._confinement.guard.end()

    def fingerprint(self, source: str) -> str:
        """Return the xxh3 hex of a statement's source and its environment's settings."""
        return xxhash.xxh3_64_hexdigest(source.encode("utf-8", "replace") + b"\0" + self._meta)

    async def _contents(self, digests: Collection[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
        return await anyio.to_thread.run_sync(self._found, tuple(digests))

    def _found(self, digests: Sequence[BlobDigest]) -> Mapping[BlobDigest, bytes | StoreError]:
        found: dict[BlobDigest, bytes | StoreError] = {}
        for digest in digests:
            try:
                found[digest] = self._store.blob_get(digest)
            except KeyError:
                continue
            except StoreError as error:
                found[digest] = error
        return found

    def _compare(self, history: History, past: PastExecution, outcome: RunOutcome) -> Differences:
        return self._compared(history, past, outcome)[-1]

    def _compared(
        self, history: History, past: PastExecution, outcome: RunOutcome
    ) -> tuple[ExecutionFinished, ExecutionFinished, Differences]:
        """Return the record, the record of the rerun, and their differences, without secrets."""
        before = history.record(past.request.execution_id)
        assert before is not None
        after = self._log.redacted(_recorded(outcome, before))
        assert isinstance(after, ExecutionFinished)
        is_otherwise = history.is_otherwise(past.request.execution_id)
        uncertain = history.omitted_names if is_otherwise else ()
        found = differences(ending_of(before), ending_of(after), uncertain)
        if is_otherwise:
            # The user asked for that, even if a name is missing.
            missing = () if _is_stopped(outcome) else bound_names(before.diff)
            came = (*bound_names(outcome.diff), *outcome.diff.deleted)
            found = replace(found, same=found.same.union(came, missing))
        return before, after, found


def _left_out(history: History) -> Sequence[str]:
    """Return a sentence for each statement that the user left out."""
    return _bounded([f"{statement.label} is left out, as the user asked" for statement in history.omitted])


def _cut_off(history: History) -> Sequence[str]:
    """Return a sentence for each statement that a crash interrupted.

    Each is said once, because a later statement may bind its names.
    """
    return _bounded([f"{statement.label} {INTERRUPTED_SENTENCE}" for statement in history.cut_off])


def _bounded(sentences: list[str]) -> Sequence[str]:
    rest = len(sentences) - _KEPT_SENTENCES
    return [*sentences[:_KEPT_SENTENCES], more(rest, "sentence")] if rest > 0 else sentences


def _is_stopped(outcome: RunOutcome) -> bool:
    """Return whether a statement that ran again ended by something that was prevented."""
    return outcome.exception is not None and outcome.exception.type == REPLAY_EFFECT


def _recorded(outcome: RunOutcome, before: ExecutionFinished) -> ExecutionFinished:
    """Return the record of an execution, with this outcome."""
    return replace(
        before,
        status=outcome.status,
        value=outcome.value,
        markdown=outcome.markdown,
        pictures=tuple(_shown_again(each, before) for each in outcome.pictures),
        exception=outcome.exception,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        displays=outcome.displays,
        diff=outcome.diff,
        time_ms=outcome.time_ms,
        locations=outcome.locations,
    )


def _shown_again(given: GivenPicture, before: ExecutionFinished) -> Picture:
    """Return the picture of a re-run: that of the record if it is equal; another one is not kept."""
    digest = xxhash.xxh3_128_hexdigest(given.data)
    known = next((picture for picture in before.pictures if picture.digest == digest), None)
    return known or Picture(name=given.name, size=len(given.data), digest=digest, problem=NOT_KEPT)


# --- progress of a rebuild --------------------------------------------------------------------------------------------


class RebuildProgress:
    """Signals of the progress of one rebuild, if it takes long.

    Args:
        signal: publishes.
        minter: makes the id of the rebuild.
        environment: knows which execution runs again.
        executions: those that count, in order. Others are reported elsewhere.
        first_seconds: until the first signal.
    """

    def __init__(
        self,
        signal: Callable[[StatementRerun], None],
        minter: Minter,
        environment: Environment,
        executions: Sequence[PastExecution],
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._environment = environment
        self._pause = first_seconds
        self._statements = {past.request.execution_id: past.request.index for past in executions}
        self._places = {execution: place for place, execution in enumerate(self._statements, 1)}
        self._signal = signal
        self._minter = minter
        self._told: StatementRerun | None = None

    @asynccontextmanager
    async def reporting(self) -> AsyncGenerator[None]:
        """Report the progress until the block is left."""
        task = asyncio.create_task(self._tell_from_time_to_time())
        is_done = False
        try:
            yield
            is_done = True
        finally:
            task.cancel()
            self._end(is_done=is_done)

    async def _tell_from_time_to_time(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _MOST_SECONDS)
            self._look()

    def _look(self) -> None:
        execution = self._environment.rerunning
        if execution is None:
            return
        if execution in self._places:
            self._tell(execution)
        else:  # those that count are over
            self._end(is_done=True)

    def _tell(self, execution: ExecutionId) -> None:
        place = self._places[execution]
        number, total = self._statements[execution], len(self._places)
        if self._told is None:
            self._told = StatementRerun(self._minter.tool_call(), number, place, total, "begun")
        elif self._told.place != place:
            self._told = replace(self._told, statement=number, place=place, state="running")
        else:
            return
        self._signal(self._told)

    def _end(self, *, is_done: bool) -> None:
        if self._told is not None:
            last, self._told = self._told, None
            self._signal(replace(last, state="over" if is_done else "given_up"))
