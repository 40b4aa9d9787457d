"""A session's environment: started when it is first needed, rebuilt when it was lost, with its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec
import xxhash
from msgspec.structs import replace

from ..core.domain import Domain, Layer, is_held
from ..core.errors import EnvironmentUnavailableError, StoreError
from ..core.execution import REPLAY_EFFECT
from ..core.ids import BlobDigest, ExecutionId, Minter
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
from .confining import Confinement
from .directories import gone
from .journal import StatementRerun
from .kept import CheckpointKeeping, ValueKeeping
from .parts import SessionParts

# Says which statement of how many runs again, while a rebuild of the names takes long.
#
# Must not know why there is a rebuild, nor how it is shown. Used by `live_environment`.

FIRST_SECONDS: Final = 1.0
"""Nobody has to be told of what is over by then."""
_MOST_SECONDS: Final = 5.0
"""Between two signals at most; the time between them grows, because each may be a line on a screen."""


class RebuildProgress:
    """One rebuild.

    Args:
        signal: publishes.
        minter: names the rebuild.
        environment: is asked which execution runs again.
        executions: those that count, in their order; of others, which are told of elsewhere, nothing is said.
        first_seconds: until it is said for the first time.
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
    async def told(self) -> AsyncGenerator[None]:
        """Says how far it is until this is left."""
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


# live environment:
# A session's environment, started when it is first needed and rebuilt when it was lost.
#
# Owns the difference between "no worker yet", "worker there" and "worker died": whoever asks gets a living one, and
# one that is lost before it did anything is replaced. So is one in another domain than the session is to be in now: a
# domain is never loosened. Must not know what runs in it. Used by the agent loop, `statements` and the session's
# commands. More than 300 lines, because start, loss, rebuild and change of domain go by one lock, one worker and one
# state.

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1
"""Until what has become of a checkpoint is recorded, in an idle session."""
_KEPT_SENTENCES: Final = 100
"""On statements that did not run again, in one report."""
_CUT_OFF: Final = (
    "did not finish, because the program ended while it ran; it was not run again, and what it would have bound is not "
    "there"
)


Observer = Callable[[PastExecution, ExecutionFinished, ExecutionFinished, Differences, Sequence[str]], None]
"""Is told of an execution that ran again: its record, the record that it would have now, how they differ, and phrases
on what it was kept from."""


class LiveEnvironment:
    """One session's namespace, behind `runtime.environment.Environment`, which is made when it is first needed.

    Args:
        parts: the session's, with the log that a rebuilt namespace goes through.
        readings: how often a model has read.
        values: keeps those that a rebuild may not bring back.
        checkpoints: says when the namespace itself is kept.
        confinement: says in which domain the namespace is to be.
    """

    def __init__(
        self,
        parts: SessionParts,
        readings: Readings,
        values: ValueKeeping,
        checkpoints: CheckpointKeeping,
        confinement: Confinement,
    ) -> None:
        self.step = asyncio.Lock()
        """Held from the beginning of a statement or a tick until all that came of it is on the log: what the log says
        of nodes belongs to the step that it stands in."""
        self._changing = asyncio.Lock()
        """Held while a worker is started, rebuilt or ended: whoever ends one that is rebuilt at that moment, because
        another past counts from then on, would be left with one of the past before."""
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
        """Of the environment that there is, its checkpoints included."""
        self._layers: tuple[Layer, ...] = ()
        """What holds it."""
        self._was_started = False
        self._reads = 0
        """How many readings the namespace has heard of."""
        self._meta = msgspec.json.encode((parts.spec.cwd, parts.spec.import_paths))

    async def ready(self) -> Environment:
        """The living environment; started, or rebuilt from the timeline, if it has to be.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
        """
        async with self._changing:
            return await self._made_ready()

    async def _made_ready(self) -> Environment:
        environment = await self._made()
        if environment.alive:
            await self._values.catch_up(environment)
            await self._hold(environment)
        if environment.alive:
            if self._readings.count > self._reads:
                environment.read()
        else:
            history = self._history()
            compare = partial(self._compare, history)
            await self._rebuild(environment, history, lambda: self._plan(history), compare)
        self._reads = self._readings.count
        return environment

    async def _hold(self, environment: Environment) -> None:
        try:
            await self._confinement.hold(environment)
        except EnvironmentUnavailableError:
            await environment.end()  # another worker begins with all that is protected now

    def again(self, first: int, last: int) -> Sequence[PastExecution]:
        """Which executions of the statements `first` to `last` a rebuild would run again."""
        return observed_steps(self._plan(self._history(), self._confinement.may_allow), first, last)

    async def replay(self, first: int, last: int, observe: Observer, *, answers: bool = True) -> None:
        """Has the whole history run again in a fresh namespace, which is then what any rebuild would make of it.

        `observe` is told what comes of the executions that `again` has named, and may end the whole by an exception.
        Then there is no namespace, and whoever uses it next gets a rebuilt one. Without recorded `answers` the first
        that asks for an effect does not get it.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
            StatementLostError: one of these executions ended its worker.
        """
        async with self._changing:
            await self._replay(first, last, observe, answers=answers)

    async def _replay(self, first: int, last: int, observe: Observer, *, answers: bool) -> None:
        environment = await self._made()
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

    async def _made(self) -> Environment:
        """The environment of the domain that is wanted; of another one not even checkpoints are left."""
        wanted = self._confinement.wanted()
        if self._environment is not None and wanted != self._domain:
            await self._end()
        if self._environment is None:
            self._domain = wanted
            self._environment = self._make()
            self._environment.follow(self._buffers)
        return self._environment

    @property
    def confinement(self) -> Confinement:
        """What says which rights statements have here, and had."""
        return self._confinement

    @property
    def is_held(self) -> bool:
        """Whether the kernel holds what statements do, in the namespace that there is."""
        return self._environment is not None and self._domain is not None and is_held(self._layers, self._domain)

    @property
    def domain(self) -> Domain | None:
        """The domain that statements are held to; None where they are not."""
        return self._domain if self.is_held else None

    def _history(self) -> History:
        return History.of(self._log.events, self._log.branches.holds)

    def _plan(self, history: History, allows: Callable[[int], bool] | None = None) -> RestorePlan:
        return history.plan(self._spec.limits.statement_seconds, allows or self._confinement.allows)

    async def _rebuild(
        self, environment: Environment, history: History, planned: Callable[[], RestorePlan], compare: Comparison
    ) -> None:
        loss = await environment.loss()
        self._values.forget()
        self._checkpoints.hear(environment)
        # With a checkpoint there is no need of an empty namespace, which takes a while to start.
        if not (self._was_started and self._checkpoints.keeps):
            await self._start(environment)
        # Now, because only a worker knows what holds it, and only then is it known what may run again.
        try:
            await self._confinement.enter(self._domain, self._layers, history)
        except BaseException:
            # An empty namespace must not pass for the rebuilt one.
            with anyio.CancelScope(shield=True):
                await environment.end()
            raise
        plan, cut_off = planned(), _cut_off(history)
        restored = Restored(executions=0)
        if plan.steps:
            # From `whole_from` on it is a replay, which has events of its own.
            steps = plan.steps[: plan.whole_from]
            silent = [step for step in steps if isinstance(step, PastExecution) and step.again]
            async with self._progress(environment, silent).told():
                restored = await environment.restore(plan, self._contents, compare)
        elif not environment.alive:
            await self._start(environment)
        if plan.steps or cut_off:
            divergences = (*restored.divergences, *_left_out(history), *cut_off)
            await self._record(environment, restored, divergences, loss)

    async def _start(self, environment: Environment) -> None:
        if self._domain is not None:
            self._confinement.prepare(self._domain)
        try:
            await environment.start(replace(self._spec, domain=self._domain))
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
                anew=restored.anew,
                absent=restored.absent,
                loss=loss,
            )
        )
        if restored.anew:
            # At once, because what runs next finds these values, and so must its next run.
            self._values.note(ExecutionId(self._log.at(seq).event_id), large=True)
            await self._values.catch_up(environment)

    async def recorded(self, execution_id: ExecutionId, *, acted: bool) -> None:
        """A statement has ended and is on the log: its state may be kept. Within `step`."""
        if self._environment is not None:
            await self._checkpoints.after(self._environment, execution_id, acted=acted)

    def at_rest(self) -> Environment | None:
        """The living environment, if a statement can be sent as it is; then `record_kept` follows soon."""
        environment = self._environment
        if environment is None or self.step.locked() or not environment.idle:
            return None
        if self._confinement.wanted() != self._domain or not self._confinement.is_holding:
            return None
        is_told = self._readings.count <= self._reads and not self._values.pending
        return environment if is_told and self._values.hear(environment) else None

    def record_kept(self) -> None:
        """Records what `at_rest` has found to be kept of the statement before."""
        self._values.record()

    async def ready_to_run(self) -> Environment:
        """The same for a statement, when what earlier ones left to be taken was taken. Not while another one runs."""
        environment = await self.ready()
        if not self._values.pending:
            return environment
        await self._values.collect(environment)
        return environment if environment.alive else await self.ready()

    def stopped(self) -> AbstractAsyncContextManager[bool] | None:
        """As `Environment.stopped`; None where there is none."""
        return None if self._environment is None else self._environment.stopped()

    def acting(self) -> AbstractAsyncContextManager[None]:
        """As `Environment.acting`; of a fresh environment where there is none."""
        return (self._environment or self._make()).acting()

    async def use(self, act: Callable[[Environment], Awaitable[T]], cancellation: Cancellation | None = None) -> T:
        """What `act` makes of the living environment; once more with a rebuilt one if it turns out to have died idle.

        A cancel cuts only the rebuilding short: a worker that is left in the middle of an answer has to be replaced.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or the next one was lost too.
            WorkCancelledError: a cancel came before `act` began.
        """
        cancellation = cancellation or Cancellation()
        environment = await cancellation.guard(self.ready)
        try:
            return await act(environment)
        except EnvironmentUnavailableError:
            if environment.alive:
                raise
        return await act(await cancellation.guard(self.ready))

    def follow(self, buffers: Buffers | None) -> None:
        """Has views show what an editor holds, from the next statement or tick on."""
        self._buffers = buffers
        if self._environment is not None:
            self._environment.follow(buffers)

    @property
    def next_look(self) -> float | None:
        """After how many seconds of the session's being idle `look_after` has something to do; None for not at all."""
        if self._environment is None:
            return None
        return _LOOK_SECONDS if self._checkpoints.waits and self._values.next_look is None else self._values.next_look

    async def look_after(self) -> float | None:
        """Does what has waited for the session to be idle; after how many seconds again, None for not at all."""
        if self._environment is None or not self._environment.alive:
            return None
        self._checkpoints.hear(self._environment)
        await self._values.look_after(self._environment)
        return self.next_look

    async def rest(self) -> None:
        """Ends the worker, and all that is kept of it in memory; whoever uses it next gets a rebuilt one."""
        async with self._changing:
            await self._end()

    @asynccontextmanager
    async def ended(self) -> AsyncGenerator[None]:
        """Ends the worker, and has whoever wants to use one wait until what is done meanwhile is on the log.

        Checkpoints stay, because they may serve what the log says then.
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
            self._checkpoints.hear(environment)

    async def renew(self) -> None:
        """As `ended`, with nothing done meanwhile."""
        async with self.ended():
            pass

    async def close(self) -> None:
        """Ends the worker when its values are kept, as far as that takes no long time."""
        environment = self._environment
        if environment is not None:
            try:
                if environment.alive:
                    await self._values.finish(environment)
            finally:
                await environment.close()

    def fingerprint(self, source: str) -> str:
        """xxh3 hex over a statement's source and the facts of its environment."""
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
        """The record, what ran again as it would be recorded, and how they differ; as on the log, without secrets."""
        before = history.record(past.request.execution_id)
        assert before is not None
        after = self._log.redacted(_recorded(outcome, before))
        assert isinstance(after, ExecutionFinished)
        is_otherwise = history.is_otherwise(past.request.execution_id)
        uncertain = history.omitted_names if is_otherwise else ()
        found = differences(ending_of(before), ending_of(after), uncertain)
        if is_otherwise:
            # What the user wants to have, also where a name is missing for it.
            missing = () if _is_stopped(outcome) else bound_names(before.diff)
            came = (*bound_names(outcome.diff), *outcome.diff.deleted)
            found = replace(found, same=found.same.union(came, missing))
        return before, after, found


def _left_out(history: History) -> Sequence[str]:
    """One sentence for each statement that the user left out."""
    return _bounded([f"{statement.label} is left out, as the user asked" for statement in history.omitted])


def _cut_off(history: History) -> Sequence[str]:
    """One sentence for each statement whose end nobody saw; said once, because a later statement may bind its names."""
    return _bounded([f"{statement.label} {_CUT_OFF}" for statement in history.cut_off])


def _bounded(sentences: list[str]) -> Sequence[str]:
    rest = len(sentences) - _KEPT_SENTENCES
    return [*sentences[:_KEPT_SENTENCES], more(rest, "sentence")] if rest > 0 else sentences


def _is_stopped(outcome: RunOutcome) -> bool:
    """Whether a statement that runs again ended by what it was kept from."""
    return outcome.exception is not None and outcome.exception.type == REPLAY_EFFECT


def _recorded(outcome: RunOutcome, before: ExecutionFinished) -> ExecutionFinished:
    """The record of an execution, as it would be if this were its outcome."""
    return replace(
        before,
        status=outcome.status,
        value=outcome.value,
        exception=outcome.exception,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        displays=outcome.displays,
        diff=outcome.diff,
        time_ms=outcome.time_ms,
        locations=outcome.locations,
    )
