"""One session's live namespace, in a worker process: the implementation of `environment.Environment`.

Owns the current worker and its lock: requests run one at a time, and a worker that breaks the protocol or does not
answer is killed. `rebuild` restores a namespace by running its history again. Must not know the log or the View. The
host makes one for each session. A little over 600 lines, because one object has all methods of the interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from socket import socket
from typing import Final

import anyio
import anyio.to_thread
from msgspec.structs import replace

from ..core.domain import Domain, Layer, is_inside
from ..core.errors import EnvironmentUnavailableError
from ..core.execution import WORKER_DIED
from ..core.ids import ExecutionId
from ..core.programs import CommandOutcome, CommandRequest
from ..files.sources import Buffers
from ..files.tails import FeedItem, Looked, News, ProjectionPart
from ..log.past import CheckpointNews, Comparison, Contents, PastExecution, Preserved, Restored, RestorePlan
from ..log.statements import (
    EffectHandler,
    OutputSink,
    RunOutcome,
    RunRequest,
    TickOutcome,
    TouchSink,
    UpdatePayload,
    ignore_touched,
)
from .checkpoint_memory import LOOK_SECONDS, CheckpointMemory, expose, protect
from .checkpoints import (
    NO_STEPS,
    Checkpoint,
    Checkpoints,
    PausedWorker,
    WorkerSandbox,
    after_outcome,
    after_rebuild,
    after_tick,
    rest_of,
    trails,
)
from .connection import Connection, Received, WorkerConnection
from .control_channel import Death, Parent
from .environment import EnvironmentSpec, Limits
from .programs import CommandRun, ForkedProgram
from .realm import Holding, Realm, turns_of
from .rebuild import Rebuild
from .statement_run import SentContents, StatementRun, ask, wait_for
from .worker.framing import ProtocolError
from .worker.protocol import (
    AskBuffers,
    BuffersMoved,
    BufferTexts,
    Collect,
    Content,
    Failed,
    Foresee,
    Foreseen,
    Kept,
    LookAt,
    LookedAt,
    Paused,
    Pickled,
    Preserve,
    Project,
    Projected,
    Started,
    Tick,
    Ticked,
)
from .zygote import Zygote

_STARTS: Final = 2
"""Attempts to start a worker: if its parent dies meanwhile, a new parent gets a second one."""
_REQUEST_SECONDS: Final = 30.0
"""Limit for a tick or a projection. After it, the worker is killed."""
_REVIVE_SECONDS: Final = 5.0
"""Limit for a checkpoint to become a worker. After it, the checkpoint is dropped."""
_KEEPING_SECONDS: Final = 2.0
"""Limit for pickling values. User code in `__reduce__` that takes longer is interrupted."""
_CLOSE_SECONDS: Final = 10.0


class _Waiting:
    """A statement that waits for the current request to end."""

    is_stopped = False


class WorkerEnvironment:
    """One session's namespace, and the programs beside it. All processes come from the host's zygote."""

    def __init__(self, zygote: Zygote, memory: CheckpointMemory | None = None) -> None:
        self._zygote = zygote
        self._memory = memory or CheckpointMemory()
        self._turns = turns_of(zygote)
        self._realm = Realm(zygote)
        self._checkpoints = Checkpoints(lambda: self.pid)
        self._trail = NO_STEPS
        """The digest of the steps that made the current namespace."""
        self._fitting: asyncio.Task[None] | None = None
        """Drops checkpoints that hold too much memory, as long as there are any."""
        self._is_read_since = False
        """The worker received `after_reading` since its latest step."""
        self._commands: set[CommandRun] = set()
        self._spec: EnvironmentSpec | None = None
        self._worker: Connection | None = None
        self._sandbox: WorkerSandbox | None = None
        """That of the current worker, if it has started."""
        self._started = False
        self._loss: str | None = None
        """Why this class killed the current worker outside of a statement."""
        self._is_loss_told = False
        """The outcome of a statement already reported the death of the current worker."""
        self._rerunning: ExecutionId | None = None
        self._is_unused = False
        """The current namespace has received no request."""
        self._running: StatementRun | None = None
        self._was_read = False
        """A model has read the handles since the last request."""
        self._buffers: Buffers | None = None
        self._following: Connection | None = None
        """The worker that received the first list of changed buffers."""
        self._waiting: _Waiting | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def alive(self) -> bool:
        """See `Environment.alive`."""
        if not self._started or self._worker is None:
            return False
        # The death of an idle worker is noticed only by looking.
        return not self._worker.dead if self._turn.locked() else self._worker.look()

    @property
    def idle(self) -> bool:
        """See `Environment.idle`."""
        return not self._turn.locked() and self.alive

    async def loss(self) -> str | None:
        """See `Environment.loss`. Waits up to some seconds for the report of a death."""
        async with self._turn:
            worker = self._worker
            if not self._started or worker is None or self._is_loss_told or worker.look():
                return None
            # A worker that closed its socket is dying; its exit status follows.
            death = await worker.kill()
            return self._loss or death.reason

    @property
    def layers(self) -> Collection[Layer]:
        """See `Environment.layers`. The worker reported them at its start."""
        return () if self._sandbox is None else self._sandbox.layers

    async def start(self, spec: EnvironmentSpec) -> None:
        """See `Environment.start`.

        Raises:
            EnvironmentUnavailableError: no worker can be started, for example because its directory is missing.
        """
        async with self._turn:
            self._spec = spec
            await self._start()

    @property
    def pid(self) -> int | None:
        """The worker's process id, for tests; None if there is no worker."""
        return None if self._worker is None or self._worker.dead else self._worker.pid

    async def hold(self, places: Sequence[str]) -> None:
        """See `Environment.hold`. Raises EnvironmentUnavailableError if the places stay writable."""
        domain = None if self._spec is None else self._spec.domain
        if domain is not None and "seatbelt" in self.layers and self.alive:
            if not all(is_inside(place, domain.read_only) for place in places if is_inside(place, domain.writable)):
                raise EnvironmentUnavailableError("a sandbox on this system takes no more read-only paths")
            return
        if domain is None or self._sandbox is None or "mounts" not in self.layers or not self.alive:
            return
        if self.pid is None:
            raise EnvironmentUnavailableError(
                "the worker's process is unknown, so no more paths can be made read-only for it"
            )
        await self._sandbox.holding.hold(self.pid, domain, places, self._late_sockets())

    @property
    def hides_all(self) -> bool:
        """See `Environment.hides_all`."""
        domain, sandbox = None if self._spec is None else self._spec.domain, self._sandbox
        if domain is None or sandbox is None or "mounts" not in sandbox.layers:
            return True
        return not any(sandbox.holding.sees(place) for place in domain.hidden)

    @property
    def finds_sockets(self) -> bool:
        """See `Environment.finds_sockets`."""
        return bool(self._late_sockets())

    def _late_sockets(self) -> Sequence[str]:
        domain, sandbox = None if self._spec is None else self._spec.domain, self._sandbox
        if domain is None or sandbox is None or "mounts" not in sandbox.layers or "sockets" in sandbox.layers:
            return ()
        return sandbox.holding.late_sockets(domain)

    @property
    def has_programs(self) -> bool:
        """See `Environment.has_programs`."""
        if not self._realm.is_begun:
            return self.alive
        if self._worker is not None and self._worker.keeping and self._worker.kept() is None:
            return True
        return self._realm.has_others((*self._checkpoints.pids, *([self.pid] if self.pid else ())))

    def end_programs(self) -> None:
        """See `Environment.end_programs`."""
        if self._realm.is_begun:
            self._realm.kill()
        else:
            self.interrupt()

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        """See `Environment.stopped`."""
        return self._standing_still()

    @asynccontextmanager
    async def _standing_still(self) -> AsyncGenerator[bool]:
        own = self._spec is not None and self._spec.domain is not None
        async with self._turns.alone():
            still: list[socket] | None = None
            with anyio.CancelScope(shield=True):  # a cancel in between would leave the processes stopped
                still = await anyio.to_thread.run_sync(partial(self._realm.stand_still, own=own))
            try:
                yield still is not None
            finally:
                self._realm.go_on(still or [])

    def acting(self) -> AbstractAsyncContextManager[None]:
        """See `Environment.acting`."""
        return self._turns.shared()

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """See `Environment.run`. Raises EnvironmentUnavailableError if there is no worker."""
        waiting = self._waiting = _Waiting()
        async with self._turn:
            if not waiting.is_stopped:
                await self._tell_moved(self._connected())
            self._waiting = None
            if waiting.is_stopped:
                return RunOutcome(status="cancelled")
            self._running = self._statement(self._connected(), request, effects, output)
            self._running.touched = touched
            self._running.on_its_way = begun
            self._running.buffers = self._buffers
            self._running.after_reading = self._take_reading()
            self._is_read_since = False
            try:
                outcome = await self._running.conduct()
            finally:
                self._running = None
            self._is_loss_told = outcome.exception is not None and outcome.exception.type == WORKER_DIED
            self._trail = after_outcome(self._trail, request.execution_id, outcome)
            self._checkpoints.ran(outcome.time_ms / 1000)
            return outcome

    def interrupt(self) -> None:
        """See `Environment.interrupt`. Also stops a statement that waits for another request."""
        if self._running is not None:
            self._running.interrupt()
        elif self._waiting is not None:
            self._waiting.is_stopped = True

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        """See `Environment.command`."""
        if self._closed or self._spec is None:
            raise EnvironmentUnavailableError("the environment is closed" if self._closed else "start it first")
        if any("\0" in text for text in (*request.argv, request.cwd)):
            raise ValueError("a command cannot contain a NUL character")
        program = ForkedProgram.start(self._parent(request.domain), self._spec, request)
        run = CommandRun(program, request, self._spec.limits.grace_seconds, output)
        self._commands.add(run)
        try:
            return await run.conduct()
        finally:
            self._commands.discard(run)

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            worker = self._connected()
            sent = SentContents(worker)
            await self._tell_moved(worker)
            tick = Tick(round_id, now, after_reading=self._take_reading(), payloads=tuple(payloads))
            match await self._exchange(worker, tick, sent):
                case Ticked(events=packed, time_ms=time_ms, nodes=nodes, stops=stops, wants=wants):
                    try:
                        events = worker.reader.events(packed)
                    except ProtocolError as error:
                        raise await self._abandon(worker, f"protocol violation: {error}") from error
                    if nodes or events:
                        self._trail = after_tick(self._trail, round_id, now)
                        self._is_read_since = False
                    return TickOutcome(
                        events=events, time_ms=time_ms, nodes=nodes, stops=stops, wants=wants, contents=sent.contents
                    )
                case other:
                    raise await self._failed(worker, "tick", other)

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            worker = self._connected()
            match await self._exchange(worker, Project(tuple(texts), budget, news or News(), self._take_reading())):
                case Projected() as part if len(part.text_tokens) == len(texts):
                    return ProjectionPart(
                        tail=part.tail,
                        tail_tokens=part.tail_tokens,
                        text_tokens=part.text_tokens,
                        handles=part.handles,
                        sections=part.sections,
                        nodes=part.nodes,
                    )
                case other:
                    raise await self._failed(worker, "projection", other)

    async def look(self, names: Collection[str] = (), tokens: int | None = None, *, at_sources: bool = False) -> Looked:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            worker = self._connected()
            match await self._exchange(worker, LookAt(tuple(names), tokens, at_sources)):
                case LookedAt(looked=looked):
                    return looked
                case other:
                    raise await self._failed(worker, "look at handles", other)

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            worker = self._connected()
            match await self._exchange(worker, Foresee(round_id, now)):
                case Foreseen(items=items):
                    return items
                case other:
                    raise await self._failed(worker, "look at sources", other)

    def read(self) -> None:
        """See `Environment.read`."""
        self._was_read = True

    def follow(self, buffers: Buffers | None) -> None:
        """See `Environment`."""
        self._buffers = buffers

    async def _tell_moved(self, worker: Connection) -> None:
        if self._buffers is None or not self._buffers.offers:
            return
        moved = await self._buffers.take_moved()
        if self._following is not worker:
            self._following, moved = worker, None
        if moved is None or moved:
            worker.send(BuffersMoved(None if moved is None else tuple(moved)))

    def kept(self) -> Preserved | None:
        """See `Environment.kept`. None while another request runs."""
        if self._worker is None or self._turn.locked():
            return None
        kept = self._worker.kept()
        if kept is None or kept.left:
            return None
        self._worker.begin_keeping(None)
        return Preserved(groups=kept.groups, unkept=kept.unkept)

    async def preserve(self, large: bool) -> Preserved:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            worker = self._connected()
            kept = Kept(execution_id="", left=True)
            if worker.keeping:
                match await wait_for(worker, worker.receive_kept, _KEEPING_SECONDS):
                    case Kept() as kept:
                        worker.begin_keeping(None)
                    case Death() as death:
                        raise await self._failed(worker, "keeping of values", death)
            found = Preserved(groups=kept.groups, unkept=kept.unkept)
            if not kept.left:
                return found
            asked = await self._pickled(worker, Preserve(large))
            groups, unkept = (*found.groups, *asked.groups), {**found.unkept, **asked.unkept}
            return Preserved(groups=groups, unkept=unkept, pending=asked.pending)

    async def collect(self) -> Preserved:
        """Raises EnvironmentUnavailableError if there is no worker, or if it dies or fails."""
        async with self._turn:
            return await self._pickled(self._connected(), Collect())

    async def _pickled(self, worker: Connection, message: Preserve | Collect) -> Preserved:
        match await ask(worker, message, _KEEPING_SECONDS):
            case Pickled(groups=groups, unkept=unkept, pending=pending):
                return Preserved(groups=groups, unkept=unkept, pending=pending)
            case other:
                raise await self._failed(worker, "keeping of values", other)

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        """See `Environment.restore`. Raises EnvironmentUnavailableError if no worker can be started."""
        async with self._turn:
            started = anyio.current_time()
            try:
                passed = trails(plan.steps)
                restored = await self._restored(plan, passed, contents, compare)
                self._checkpoints.ran(anyio.current_time() - started)
                self._trail = after_rebuild(passed[-1], restored.anew, restored.absent)
                self._is_read_since = plan.after_reading
                return restored
            except BaseException:
                # A partial namespace must not be used as a complete one.
                with anyio.CancelScope(shield=True):
                    await self._discard()
                raise
            finally:
                self._rerunning = None

    @property
    def rerunning(self) -> ExecutionId | None:
        """See `Environment.rerunning`."""
        return self._rerunning

    def _begins(self, past: PastExecution) -> None:
        self._rerunning = past.request.execution_id

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        """See `Environment.snapshot`. The worker forks a copy of itself."""
        async with self._turn:
            # The trail does not contain a reading until the next step.
            if self._worker is None or self._worker.dead or self._spec is None or self._is_read_since:
                return False
            assert self._sandbox is not None
            hindrance = "" if self._worker.pid is None else self._memory.hindrance(self._worker.pid)
            if hindrance:
                self._checkpoints.refuse(execution_id, hindrance)
                return True
            try:
                paused = self._worker.snapshot(self._spec.limits.data_bytes)
            except OSError:
                return False
            if paused is None:
                return False
            self._checkpoints.add(execution_id, self._trail, paused, self._sandbox)
            self._memory.join(self._checkpoints)
            if self._fitting is None or self._fitting.done():
                self._fitting = asyncio.create_task(self._fit())
            return True

    async def _fit(self) -> None:
        while self._checkpoints:
            await self._memory.fit()
            await asyncio.sleep(LOOK_SECONDS)

    def checkpoints(self) -> Sequence[CheckpointNews]:
        """See `Environment`."""
        return self._checkpoints.news()

    @property
    def checkpoint_pids(self) -> Sequence[int]:
        """Process ids of the checkpoints, oldest first, for tests and benchmarks."""
        return self._checkpoints.pids

    async def end(self) -> None:
        """See `Environment.end`. Takes some seconds at most."""
        async with self._turn:
            await self._checkpoints.settle()
            await self._discard()

    async def close(self) -> None:
        """See `Environment.close`. Takes some seconds at most."""
        self._closed = True
        self._checkpoints.close()
        self._memory.leave(self._checkpoints)
        if self._fitting is not None:
            self._fitting.cancel()
        with anyio.CancelScope(shield=True):
            await self._end_commands()
            if self._turn.locked():
                self.interrupt()
                if self._worker is not None:
                    self._worker.end()
            with anyio.move_on_after(_CLOSE_SECONDS):
                async with self._turn:
                    await self._discard()
        self._realm.close()

    # --- details ------------------------------------------------------------------------------------------------------

    def _connect(self, spec: EnvironmentSpec) -> Connection:
        return WorkerConnection.open(self._parent(spec.domain), spec)

    def _revive(self, spec: EnvironmentSpec, paused: PausedWorker) -> Connection:
        return WorkerConnection.restore(self._parent(spec.domain), paused, spec)

    def _parent(self, domain: Domain | None) -> Parent:
        """The parent of processes in that domain: those without mounts see the user's processes, so no realm."""
        return self._zygote if domain is None or "mounts" in domain.without else self._realm

    async def _end_commands(self) -> None:
        running = tuple(self._commands)
        for run in running:
            run.end("the session was closed")
        with anyio.move_on_after(_CLOSE_SECONDS):
            for run in running:
                await run.finished.wait()

    def _take_reading(self) -> bool:
        was_read, self._was_read = self._was_read, False
        self._is_read_since = self._is_read_since or was_read
        return was_read

    def _connected(self) -> Connection:
        if self._worker is None or self._worker.dead:
            raise EnvironmentUnavailableError("there is no live namespace; restore it or start one")
        self._is_unused = False
        return self._worker

    async def _start(self) -> None:
        for is_last in (False,) * (_STARTS - 1) + (True,):
            await self._discard()
            if self._closed or self._spec is None:
                raise EnvironmentUnavailableError("the environment is closed" if self._closed else "start it first")
            self._worker = self._connect(self._spec)
            try:
                message = await self._worker.first()
                if isinstance(message, Started):
                    self._sandbox = self._held(message.layers)
                    break
                if is_last or not isinstance(message, Death) or not message.again:
                    raise EnvironmentUnavailableError(f"no worker can start in {self._spec.cwd}: {_described(message)}")
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._discard()
                raise
        self._started = self._is_unused = True

    def _held(self, layers: tuple[Layer, ...]) -> WorkerSandbox:
        holding = Holding()
        domain = None if self._spec is None else self._spec.domain
        if domain is not None and "mounts" in layers and self.pid is not None:
            holding.begin(self.pid, domain)
        return WorkerSandbox(layers, holding)

    async def _restored(
        self, plan: RestorePlan, passed: Sequence[int], contents: Contents, compare: Comparison
    ) -> Restored:
        """Run the plan from the checkpoint that covers most of its steps.

        `passed` are the trails of the steps.
        """
        limits = Limits() if self._spec is None else self._spec.limits
        await self._checkpoints.settle()
        while (found := self._checkpoints.serving(plan.steps, passed)) is not None:
            checkpoint, over = found
            rest = rest_of(plan, over)
            try:
                revived = partial(self._revived, checkpoint)
                restored = await Rebuild(revived, limits, contents, compare, self._begins).run(rest)
                divergences = (*restored.divergences, *_lacking(checkpoint.paused))
                return replace(restored, checkpoint=checkpoint.execution_id, divergences=divergences)
            except EnvironmentUnavailableError as error:
                self._checkpoints.drop(checkpoint, f"the checkpoint cannot be restored: {error}")
        return await Rebuild(self._fresh, limits, contents, compare, self._begins).run(plan)

    async def _revived(self, checkpoint: Checkpoint) -> Connection:
        last = self._let_go()
        if last is not None:
            last.end()  # it ends while the next one starts
        try:
            if self._closed or self._spec is None:
                raise EnvironmentUnavailableError("the environment is closed" if self._closed else "start it first")
            protect(checkpoint.paused.pid)  # because the worker inherits it
            self._worker = self._revive(self._spec, checkpoint.paused)
            message = await self._worker.receive(anyio.move_on_after(_REVIVE_SECONDS))
        finally:
            # The old worker may hold a port that a statement needs again.
            await _end(last)
        if not isinstance(message, Started):
            raise EnvironmentUnavailableError(_described(message))
        expose(checkpoint.paused.pid)
        self._sandbox = checkpoint.sandbox
        self._checkpoints.continued_from(checkpoint)
        self._started = True
        return self._worker

    async def _fresh(self) -> Connection:
        # Starting a worker takes as long as a hundred statements, and a caller that restores has just started one.
        if self._worker is None or not self._is_unused or not self._worker.look():
            await self._start()
        return self._connected()

    async def _discard(self) -> None:
        await _end(self._let_go())

    def _let_go(self) -> Connection | None:
        worker, self._worker, self._following = self._worker, None, None
        self._started = self._was_read = self._is_unused = self._is_read_since = self._is_loss_told = False
        self._loss = None
        self._trail = NO_STEPS
        self._sandbox = None
        self._checkpoints.continued_from(None)
        return worker

    def _statement(
        self,
        worker: Connection,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
    ) -> StatementRun:
        assert self._spec is not None
        return StatementRun(worker, request, self._spec.limits, effects, output)

    async def _exchange(
        self, worker: Connection, message: Tick | Project | LookAt | Foresee, sent: SentContents | None = None
    ) -> Received | None:
        """Send a request and return its answer. Cancelling kills the worker, because its answer would come late.

        A tick also sends contents, which go into `sent`, and asks for the editor's buffers.
        """
        worker.send(message)
        try:
            answer = await worker.receive(anyio.move_on_after(_REQUEST_SECONDS))
            while sent is not None and isinstance(answer, Content | AskBuffers):
                if isinstance(answer, Content):
                    sent.take(answer)
                else:
                    worker.send(BufferTexts(answer.number, await self._texts(answer)))
                answer = await worker.receive(anyio.move_on_after(_REQUEST_SECONDS))
        except BaseException:
            self._loss = "a request to the worker was abandoned"
            await worker.kill()
            raise
        return answer

    async def _texts(self, ask: AskBuffers) -> dict[str, str | None]:
        return {} if self._buffers is None else dict(await self._buffers.texts(ask.paths))

    async def _failed(self, worker: Connection, what: str, answer: Received | None) -> EnvironmentUnavailableError:
        if isinstance(answer, Failed):
            return EnvironmentUnavailableError(f"the {what} failed: {answer.reason}")
        return await self._abandon(worker, f"the {what} failed: {_described(answer)}")

    async def _abandon(self, worker: Connection, reason: str) -> EnvironmentUnavailableError:
        self._loss = reason
        await worker.kill()
        return EnvironmentUnavailableError(reason)


async def _end(worker: Connection | None) -> None:
    if worker is not None:
        try:
            await worker.kill()
        finally:
            worker.close()


def _lacking(paused: PausedWorker) -> tuple[str, ...]:
    """What a namespace lost because a checkpoint cannot copy it, as sentences."""
    shared = paused.said.shared if isinstance(paused.said, Paused) else ()
    return (
        f"the variables come from a checkpoint, which cannot contain all of the namespace ({', '.join(shared)})",
    ) * bool(shared)


def _described(message: Received | None) -> str:
    match message:
        case Death(reason=reason) | Failed(reason=reason):
            return reason
        case None:
            return "the worker did not answer in time"
        case _:
            return f"it answered {type(message).__name__}"
