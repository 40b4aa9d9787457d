"""`runtime.environment.Environment` over a connection: one namespace after the other, one request at a time.

Owns which connection is the present one; `rebuild` restores by running a history again. Whether a process or a thread
is at the other end is the business of whoever opens connections: `worker_environment` and `in_process`, the two
implementations. Must not know the log, the View or any transport. More than 300 lines, because the port has that many
methods and what each raises stands with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final

import anyio
from msgspec.structs import replace

from ..core.domain import Layer
from ..core.errors import EnvironmentUnavailableError
from ..core.execution import WORKER_DIED
from ..core.ids import ExecutionId
from ..core.programs import CommandOutcome, CommandRequest
from ..files.sources import Buffers
from ..files.tails import FeedItem, Looked, News, ProjectionPart
from ..log.checkpoints import NO_STEPS, after_outcome, after_rebuild, after_tick, rest_of, trails
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
from .checkpoints import Checkpoints, PausedWorker
from .connection import Connection, Received
from .control_channel import Death
from .environment import EnvironmentSpec, Limits
from .programs import CommandRun, RunningProgram
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

_STARTS: Final = 2
"""A start that failed with the parent of the worker is tried once more, with a new one."""
_REQUEST_SECONDS: Final = 30.0
"""A tick or a projection that takes longer has lost its worker."""
_REVIVE_SECONDS: Final = 5.0
"""A checkpoint that does not give a worker within this time is none."""
_KEEPING_SECONDS: Final = 2.0
"""What is pickled in the worker itself ends by itself long before; code that does not is interrupted."""
_CLOSE_SECONDS: Final = 10.0


class _Waiting:
    """A statement whose turn has not come, because another request is being answered."""

    is_stopped = False


class ConnectedEnvironment:
    """One session's namespace, and the programs beside it.

    `connect` starts a runner, `start_program` a program, `revive` a runner that goes on where a checkpoint is; each
    raises EnvironmentUnavailableError where it cannot.
    """

    def __init__(
        self,
        connect: Callable[[EnvironmentSpec], Connection],
        start_program: Callable[[EnvironmentSpec, CommandRequest], RunningProgram],
        revive: Callable[[EnvironmentSpec, PausedWorker], Connection] | None = None,
    ) -> None:
        self._connect = connect
        self._revive = revive
        self._checkpoints = Checkpoints()
        self._trail = NO_STEPS
        """Of the present namespace."""
        self._fitting: asyncio.Task[None] | None = None
        """Keeps the memory of the checkpoints within bounds."""
        self._is_read_since = False
        """It was told that a model has read its handles, after its latest step."""
        self._start_program = start_program
        self._commands: set[CommandRun] = set()
        self._spec: EnvironmentSpec | None = None
        self._worker: Connection | None = None
        self._layers: tuple[Layer, ...] = ()
        self._started = False
        self._loss: str | None = None
        """Why the present worker was ended beside a statement."""
        self._is_loss_told = False
        """The outcome of a statement has said how the present worker ended."""
        self._rerunning: ExecutionId | None = None
        self._is_unused = False
        """Nothing was asked of the present namespace yet."""
        self._running: StatementRun | None = None
        self._was_read = False
        """A model has read the handles since the last message."""
        self._buffers: Buffers | None = None
        self._following: Connection | None = None
        """The runner that was told of the editor's buffers."""
        self._waiting: _Waiting | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether there is a namespace to run in; after a kill there is none until `restore`."""
        if not self._started or self._worker is None:
            return False
        # One that died idle has told nobody yet.
        return not self._worker.dead if self._turn.locked() else self._worker.look()

    @property
    def idle(self) -> bool:
        """Whether it is alive, and no request is under way."""
        return not self._turn.locked() and self.alive

    async def loss(self) -> str | None:
        """See the port; takes as long as the report of a death, within seconds."""
        async with self._turn:
            worker = self._worker
            if not self._started or worker is None or self._is_loss_told or worker.look():
                return None
            # One that has hung up is on its way out, and how it ended is known a little later.
            death = await worker.kill()
            return self._loss or death.reason

    @property
    def layers(self) -> Collection[Layer]:
        """What holds the present namespace to its domain, as its process says."""
        return self._layers

    async def start(self, spec: EnvironmentSpec) -> None:
        """Starts a fresh namespace in place of one that may be there.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or its surroundings are not there.
        """
        async with self._turn:
            self._spec = spec
            await self._start()

    async def hold(self, places: Sequence[str]) -> None:
        """Does nothing, because nothing holds a namespace that is no process; see the port."""

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        """Stops nothing, because nothing holds a namespace that is no process; see the port."""
        return nullcontext(True)

    def acting(self) -> AbstractAsyncContextManager[None]:
        """Waits for nobody, because nothing is stopped; see the port."""
        return nullcontext()

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """Raises EnvironmentUnavailableError where there is no worker; one that dies is an outcome."""
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
            return outcome

    def interrupt(self) -> None:
        """Stops the statement that is running, or waits for a tick or a projection; see the port."""
        if self._running is not None:
            self._running.interrupt()
        elif self._waiting is not None:
            self._waiting.is_stopped = True

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        """Runs a program; see the port."""
        if self._closed or self._spec is None:
            raise EnvironmentUnavailableError("the environment is closed" if self._closed else "start it first")
        if any("\0" in text for text in (*request.argv, request.cwd)):
            raise ValueError("a command cannot hold a NUL character")
        program = self._start_program(self._spec, request)
        run = CommandRun(program, request, self._spec.limits.grace_seconds, output)
        self._commands.add(run)
        try:
            return await run.conduct()
        finally:
            self._commands.discard(run)

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
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
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
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
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
        async with self._turn:
            worker = self._connected()
            match await self._exchange(worker, LookAt(tuple(names), tokens, at_sources)):
                case LookedAt(rows=rows, shown=shown, stale=stale):
                    return Looked(rows=rows, shown=shown, stale=stale)
                case other:
                    raise await self._failed(worker, "look at handles", other)

    async def foresee(self, round_id: int, now: float) -> Sequence[FeedItem]:
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
        async with self._turn:
            worker = self._connected()
            match await self._exchange(worker, Foresee(round_id, now)):
                case Foreseen(items=items):
                    return items
                case other:
                    raise await self._failed(worker, "look at sources", other)

    def read(self) -> None:
        """A model has read the handles as they are; the namespace hears of it ahead of the next request."""
        self._was_read = True

    def follow(self, buffers: Buffers | None) -> None:
        """See the port."""
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
        """See the port; None while another request is answered."""
        if self._worker is None or self._turn.locked():
            return None
        kept = self._worker.kept()
        if kept is None or kept.left:
            return None
        self._worker.begin_keeping(None)
        return Preserved(groups=kept.groups, unkept=kept.unkept)

    async def preserve(self, large: bool) -> Preserved:
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
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
        """Raises EnvironmentUnavailableError where there is no worker or it dies or fails."""
        async with self._turn:
            return await self._pickled(self._connected(), Collect())

    async def _pickled(self, worker: Connection, message: Preserve | Collect) -> Preserved:
        match await ask(worker, message, _KEEPING_SECONDS):
            case Pickled(groups=groups, unkept=unkept, pending=pending):
                return Preserved(groups=groups, unkept=unkept, pending=pending)
            case other:
                raise await self._failed(worker, "keeping of values", other)

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        """Replaces the namespace by one in which the plan's steps have run again, touching nothing outside.

        An execution that ends its worker now, or leaves Python unusable in it, is left out.

        Raises:
            EnvironmentUnavailableError: no worker can be started.
        """
        async with self._turn:
            try:
                passed = trails(plan.steps)
                restored = await self._restored(plan, passed, contents, compare)
                self._trail = after_rebuild(passed[-1], restored.anew, restored.absent)
                return restored
            except BaseException:
                # Half a namespace must not pass for a whole one.
                with anyio.CancelScope(shield=True):
                    await self._discard()
                raise
            finally:
                self._rerunning = None

    @property
    def rerunning(self) -> ExecutionId | None:
        """Which execution `restore` has run again at this moment."""
        return self._rerunning

    def _begins(self, past: PastExecution) -> None:
        self._rerunning = past.request.execution_id

    async def snapshot(self, execution_id: ExecutionId) -> bool:
        """Has the worker fork a copy of itself; see the port. False where none can be asked for."""
        async with self._turn:
            # A reading belongs to the step that follows it.
            if self._worker is None or self._worker.dead or self._spec is None or self._is_read_since:
                return False
            try:
                paused = self._worker.snapshot(self._spec.limits.data_bytes)
            except OSError:
                return False
            if paused is None:
                return False
            self._checkpoints.add(execution_id, self._trail, paused)
            if self._fitting is None or self._fitting.done():
                self._fitting = asyncio.create_task(self._checkpoints.fit(self._spec.limits.data_bytes))
            return True

    def checkpoints(self) -> Sequence[CheckpointNews]:
        """See the port."""
        return self._checkpoints.news()

    @property
    def checkpoint_pids(self) -> Sequence[int]:
        """The processes of the checkpoints that there are, oldest first, for tests and measurements."""
        return self._checkpoints.pids

    async def end(self) -> None:
        """Ends what is at the other end, within seconds; see the port."""
        async with self._turn:
            await self._checkpoints.settle()
            await self._discard()

    async def close(self) -> None:
        """Ends what is at the other end and gives everything back, within seconds; may be repeated."""
        self._closed = True
        self._checkpoints.close()
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

    # --- inside ------------------------------------------------------------------------------------------------------

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
                    self._layers = message.layers
                    break
                if is_last or not isinstance(message, Death) or not message.again:
                    raise EnvironmentUnavailableError(f"no worker in {self._spec.cwd}: {_described(message)}")
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._discard()
                raise
        self._started = self._is_unused = True

    async def _restored(
        self, plan: RestorePlan, passed: Sequence[int], contents: Contents, compare: Comparison
    ) -> Restored:
        """Goes through the plan, whose trails are `passed`, from the checkpoint on that has most of it behind it."""
        limits = Limits() if self._spec is None else self._spec.limits
        await self._checkpoints.settle()
        while (found := self._checkpoints.serving(plan.steps, passed)) is not None:
            checkpoint, over = found
            rest = rest_of(plan, over)
            try:
                revived = partial(self._revived, checkpoint.paused)
                restored = await Rebuild(revived, limits, contents, compare, self._begins).run(rest)
                divergences = (*restored.divergences, *_lacking(checkpoint.paused))
                return replace(restored, checkpoint=checkpoint.execution_id, divergences=divergences)
            except EnvironmentUnavailableError as error:
                self._checkpoints.drop(checkpoint, f"nothing can be restored from it: {error}")
        return await Rebuild(self._fresh, limits, contents, compare, self._begins).run(plan)

    async def _revived(self, paused: PausedWorker) -> Connection:
        last = self._let_go()
        if last is not None:
            last.end()  # which it does while the next one begins
        try:
            if self._closed or self._spec is None or self._revive is None:
                raise EnvironmentUnavailableError("the environment is closed" if self._closed else "start it first")
            self._worker = self._revive(self._spec, paused)
            message = await self._worker.receive(anyio.move_on_after(_REVIVE_SECONDS))
        finally:
            # What it held, such as a port, is free before anything runs again.
            await _end(last)
        if not isinstance(message, Started):
            raise EnvironmentUnavailableError(_described(message))
        self._layers = message.layers
        self._started = True
        return self._worker

    async def _fresh(self) -> Connection:
        # Starting a worker takes as long as a hundred statements, and whoever restores has just started one.
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
        self._layers = ()
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
        """Sends a request and receives its answer; a cancelled exchange ends the worker, who would be out of step.

        Into `sent` goes what comes before that; a tick may also ask what the user's editor holds.
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
            self._loss = "a request to its worker was given up"
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
    """What a namespace that comes from the checkpoint had and has no more, in a sentence."""
    shared = paused.said.shared if isinstance(paused.said, Paused) else ()
    return (f"the names come from a checkpoint, which cannot hold what else there was ({', '.join(shared)})",) * bool(
        shared
    )


def _described(message: Received | None) -> str:
    match message:
        case Death(reason=reason) | Failed(reason=reason):
            return reason
        case None:
            return "it did not answer in time"
        case _:
            return f"it answered {type(message).__name__}"
