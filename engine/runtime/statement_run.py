"""One statement from request to outcome: its effects, its time limit, its interrupt, and its worker's possible death.

The host sends one request (Run) and receives one answer (Ran). In between the worker may send a question (Ask) and
waits for the Answer. So at each moment exactly one side may send, and a message out of turn is a violation that kills
the worker. There are two exceptions. If an exception ends the wait for an answer, the statement goes on and the worker
sends its next message. And reports of files that the statement's own code writes come at any time; the connection
handles them.

Three events keep no turns: the time limit, an interrupt, and the worker's death. After each of them the worker must be
idle, without any message of this statement under way, or dead. The next statement relies on that.

Before its first interrupt the host sends Stopping, so the worker can raise an exception that names the reason.

An interrupt is a signal, so it has no place in the order of messages. It may arrive before the statement begins (the
worker remembers it), in a system call that it does not end (so the host repeats it every tenth of a second), while the
worker waits for an answer (the host cancels the answer and says so), or after the statement has ended. The last case is
dangerous, because the signal would hit the next statement. So after a stopped statement the host waits until all its
interrupts were sent, then sends CleanUp. A message that is written after a signal arrives after it, so a worker that
reads CleanUp has received all of them. It forgets a remembered one, ends what the statement started, and answers
CleanedUp. A statement that still runs at the end of the grace is killed.

The time limit is an interrupt by the host. Only the time in which the host waits for messages counts, not the time in
which it answers an effect. The host decides the status: a statement that catches its interrupt and ends normally was
still stopped. If the waiting task is cancelled, the same steps run under a shield.

Must not know sessions or the log. Used by `worker_environment` and by rebuilds.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeVar

import anyio
from msgspec import Struct

from ..core.execution import WORKER_DIED, ExceptionInfo, ExecutionStatus
from ..core.pictures import GivenPicture
from ..files.sources import Buffers
from ..log.statements import (
    STEP_CONTENT_BYTES,
    EffectAnswer,
    EffectHandler,
    EffectRequest,
    OutputSink,
    RunOutcome,
    RunRequest,
    TouchSink,
    UpdatePayload,
    ignore_touched,
)
from .connection import Capture, Connection, Received
from .control_channel import Death
from .environment import Limits
from .worker.framing import FrameTooLargeError, ProtocolError
from .worker.protocol import (
    Answer,
    Ask,
    AskBuffers,
    BufferTexts,
    CleanedUp,
    CleanUp,
    Content,
    Failed,
    Look,
    Ran,
    Replay,
    Run,
    ShownPicture,
    Stopping,
    ToWorker,
)

RequestAnswer = TypeVar("RequestAnswer")
REPEAT_SECONDS: Final = 0.1
"""Interval of repeated interrupts. One that arrives just before a system call does not end that call."""
GRACE_SECONDS: Final = 5.0
"""Grace of a request that is no statement, between the first interrupt and the kill."""
LOADING_SECONDS: Final = 10.0
"""Limit for loading kept values, after which that is interrupted."""
_CLEAN_UP_SECONDS: Final = 5.0
_SENDING_SECONDS: Final = 10.0
"""Time for the contents of an ended statement to arrive."""
_STOPPED: Final = ExceptionInfo(type="InterruptedError", message="the statement is being stopped")
Stop = Literal["cancelled", "timeout"]
T = TypeVar("T")


class StatementRun:
    """One statement in a worker. In a replay, `recording` has its inputs."""

    def __init__(
        self,
        worker: Connection,
        request: RunRequest,
        limits: Limits,
        effects: EffectHandler,
        output: OutputSink,
        recording: Recording | None = None,
    ) -> None:
        self._worker = worker
        self._request = request
        self._limits = limits
        self._effects = effects
        self._recording = recording
        self._sent = SentContents(worker)
        redactor = worker.reader.redactor
        self._stdout = Capture(redactor, lambda text: output("stdout", text))
        self._stderr = Capture(redactor, lambda text: output("stderr", text))
        self._stop: Stop | None = None
        self._kill_at = math.inf
        self._limit = self._left = limits.statement_seconds if request.time_limit is None else request.time_limit
        self._scope: anyio.CancelScope | None = None
        """The scope of the wait for the next message."""
        self._answering: anyio.CancelScope | None = None
        self._early: Received | None = None
        """A message that arrived while an effect was answered."""
        self._failure: Exception | None = None
        """An exception of the output sink meanwhile."""
        self._outcome: RunOutcome | None = None
        self.touched: TouchSink = ignore_touched
        """Receives the files that the statement's own code writes."""
        self.on_its_way: Callable[[], None] | None = None
        """Called when the statement was sent."""
        self.buffers: Buffers | None = None
        """The editor's buffers."""
        self.after_reading = recording is not None and recording.after_reading

    async def conduct(self) -> RunOutcome:
        """Run the statement to its end. If the awaiting task is cancelled, the statement is stopped first."""
        self._worker.begin_capture(self._stdout, self._stderr)
        self._worker.begin_touches(self.touched)
        self._worker.begin_keeping(self._request.execution_id if self._request.keeps else None)
        try:
            self._worker.send(self._message())
        except FrameTooLargeError as error:
            self._worker.begin_keeping(None)
            return RunOutcome(status="error", exception=ExceptionInfo(type="FrameTooLargeError", message=str(error)))
        self._worker.watch_memory(True)
        try:
            await self._meanwhile()
            return await self._finish()
        except BaseException:
            with anyio.CancelScope(shield=True):
                self.interrupt("cancelled")
                await self._wait_until_idle()
            raise
        finally:
            self._worker.begin_touches(ignore_touched)
            self._worker.watch_memory(False)

    def interrupt(self, stop: Stop = "cancelled") -> None:
        """Send SIGINT until it works, and SIGKILL after the grace. Only the first call has an effect."""
        if self._stop is not None or self._outcome is not None:
            return
        self._stop = stop
        self._kill_at = anyio.current_time() + self._grace_seconds
        self._worker.announce_stop(Stopping(self._limit if stop == "timeout" else None))
        self._send_interrupt()
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + self._left
        if self._answering is not None:
            self._answering.cancel()

    # --- overridden by `ReplayRun` -----------------------------------------------------------------------------------

    @property
    def _grace_seconds(self) -> float:
        return self._limits.grace_seconds

    async def _meanwhile(self) -> None:
        """Called when the request was sent, while the worker performs it."""
        if self.on_its_way is not None:
            self.on_its_way()

    def _take_other(self, message: Received) -> None:
        self._worker.violate(f"unexpected {type(message).__name__} while a statement runs")

    # --- details -----------------------------------------------------------------------------------------------------

    def _send_interrupt(self) -> None:
        self._worker.interrupt()
        self._left = max(0.0, min(REPEAT_SECONDS, self._kill_at - anyio.current_time()))

    def _message(self) -> Run | Replay:
        return run_message(self._request, self._recording, after_reading=self.after_reading)

    async def _wait_until_idle(self) -> None:
        """After a failure of the host's side, wait until the worker is idle or dead, without the failed output sink."""
        redactor = self._worker.reader.redactor
        self._worker.begin_capture(Capture(redactor), Capture(redactor))
        if self._outcome is None:
            await self._finish()
        else:
            await self._clean_up()

    async def _finish(self) -> RunOutcome:
        while self._outcome is None:
            started = anyio.current_time()
            scope = self._scope = anyio.CancelScope(deadline=started + self._left)
            message, self._early = self._early, None
            message = message or await self._worker.receive(scope)
            # Time for answering an effect does not count.
            self._left = max(0.0, scope.deadline - anyio.current_time())
            match message:
                case None if self._stop is None:
                    self.interrupt("timeout")
                case None if anyio.current_time() < self._kill_at:
                    self._send_interrupt()
                case None:
                    self._outcome = self._died(await self._worker.kill())
                case Ask() | AskBuffers():
                    await (self._answer(message) if isinstance(message, Ask) else self._tell_texts(message))
                case Content():
                    self._take(message)
                case Ran():
                    self._outcome = self._ended(message)
                case Death():
                    self._outcome = self._died(message)
                case Failed(reason=reason):
                    # Our code does not fail there, so user code has replaced it.
                    self._worker.violate(f"the statement could not be run: {reason}")
                case _:
                    self._take_other(message)
        await self._clean_up()
        return self._outcome

    def _take(self, content: Content) -> None:
        if not self._sent.contents:
            # The statement has ended within its time. Sending its contents may take longer.
            self._left = max(self._left, _SENDING_SECONDS)
            self._kill_at = max(self._kill_at, anyio.current_time() + _SENDING_SECONDS)
        self._sent.take(content)

    async def _answer(self, ask: Ask) -> None:
        answer = EffectAnswer(error=_STOPPED)
        if self._stop is None:
            answer = await self._ask_handler(ask)
            if self._stop is not None:
                # Ending a program that the statement requested may have used up the grace.
                self._kill_at = anyio.current_time() + self._limits.grace_seconds
        try:
            self._worker.send(_answer(ask.ordinal, answer))
        except (FrameTooLargeError, TypeError) as error:
            failure = ExceptionInfo(
                type="ValueError", message=f"the tool's answer cannot be sent to the statement: {error}"
            )
            self._worker.send(Answer(ordinal=ask.ordinal, error=failure))

    async def _ask_handler(self, ask: Ask) -> EffectAnswer:
        """The handler's answer, or an error if the statement was stopped meanwhile."""
        return await self._listening(lambda: self._handle(ask), EffectAnswer(error=_STOPPED))

    async def _tell_texts(self, ask: AskBuffers) -> None:
        texts: Mapping[str, str | None] = {}
        if self._stop is None and (buffers := self.buffers) is not None:
            texts = await self._listening(lambda: buffers.texts(ask.paths), texts)
        self._worker.send(BufferTexts(ask.number, dict(texts)))

    async def _listening(self, act: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Await `act` while receiving from the worker; return `otherwise` if it is cancelled."""
        found, self._failure = otherwise, None
        with anyio.CancelScope() as self._answering:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                found = await act()
                tasks.cancel_scope.cancel()
        self._answering = None
        if self._failure is not None:
            raise self._failure
        return found

    async def _listen(self) -> None:
        """Read output while an effect is answered, and cancel the answer at the first message.

        An answer may take minutes. Processes of the statement print meanwhile, and would block on a full pipe. A
        message means that the worker died, or that an exception ended its wait for the answer.
        """
        try:
            self._early = await self._worker.receive(anyio.CancelScope())
        except Exception as error:
            self._failure = error
        if self._answering is not None:
            self._answering.cancel()

    async def _handle(self, ask: Ask) -> EffectAnswer:
        request = EffectRequest(ordinal=ask.ordinal, operation=ask.operation, arguments=ask.arguments, basis=ask.basis)
        try:
            return await self._effects(request)
        except Exception as error:
            return EffectAnswer(error=ExceptionInfo(type=type(error).__name__, message=str(error)))

    def _ended(self, ran: Ran) -> RunOutcome | None:
        self._worker.drain()
        return self._outcome_of(ran, self._stdout, self._stderr)

    def _outcome_of(self, ran: Ran, stdout: Capture, stderr: Capture) -> RunOutcome | None:
        """The outcome; None if the result is invalid, for which the worker is killed."""
        try:
            if ran.execution_id != self._request.execution_id:
                raise ProtocolError("unexpected result of another execution")
            events = self._worker.reader.events(ran.events)
        except ProtocolError as error:
            # The worker's death follows and becomes the outcome.
            self._worker.violate(str(error))
            return None
        return RunOutcome(
            status=self._stop or ran.status,
            value=ran.value,
            markdown=ran.markdown,
            pictures=tuple(self._given(number, picture) for number, picture in enumerate(ran.pictures, 1)),
            exception=ran.exception,
            time_ms=ran.time_ms,
            stdout=stdout.finish(),
            stderr=stderr.finish(),
            displays=ran.displays,
            locations=ran.locations,
            diff=ran.diff,
            stops=ran.stops,
            events=events,
            contents=self._sent.contents,
            acted=ran.acted,
            writing=ran.writing,
            more=ran.more,
        )

    def _given(self, number: int, picture: ShownPicture) -> GivenPicture:
        name = picture.name or f"statement-{self._request.index}" + (f"-{number}" if number > 1 else "")
        return GivenPicture(name, picture.media_type, picture.data, pixels=max(picture.pixels, 0))

    def _died(self, death: Death) -> RunOutcome:
        self._worker.drain()
        status: ExecutionStatus = self._stop or "error"
        reason = death.reason
        if self._stop is not None:
            grace = f"{self._limits.grace_seconds:g} s"
            reason = f"the statement did not stop within {grace} of being interrupted; {death.reason}"
        return RunOutcome(
            status=status,
            exception=ExceptionInfo(type=WORKER_DIED, message=reason),
            stdout=self._stdout.finish(),
            stderr=self._stderr.finish(),
            contents=self._sent.contents,
        )

    async def _clean_up(self) -> None:
        """End what a stopped statement started, and keep its interrupt from the next statement."""
        if self._stop is not None:
            await forget_interrupts(self._worker)


class SentContents:
    """The contents that the nodes of one step saw, by digest; the worker sends them before the step's result.

    Their total size is limited here too, because a statement could send any amount.
    """

    def __init__(self, worker: Connection) -> None:
        self._worker = worker
        self._contents: dict[str, bytes] = {}
        self._size = 0

    @property
    def contents(self) -> dict[str, bytes]:
        return self._contents

    def take(self, content: Content) -> None:
        """Add one; kill the worker if a step sends too much."""
        self._size += len(content.data)
        if self._size > STEP_CONTENT_BYTES:
            self._contents.clear()
            self._worker.violate(f"the worker sent more than {STEP_CONTENT_BYTES >> 20} MiB of contents for one step")
        else:
            self._contents[content.digest] = content.data


class Recording(Struct, frozen=True, kw_only=True):
    """The recorded inputs of a statement in a replay, as fields of `Run`."""

    answers: tuple[Answer, ...] = ()
    revisions: tuple[Look, ...] | None = ()
    after_reading: bool = False
    ticks: tuple[float, ...] = ()
    payloads: tuple[UpdatePayload, ...] = ()


def run_message(request: RunRequest, recording: Recording | None, *, after_reading: bool) -> Run:
    """Convert the request for the worker, live or in a replay."""
    return Run(
        execution_id=request.execution_id,
        label=request.label,
        source=request.source,
        round_id=request.round_id,
        index=request.index,
        recorded=None if recording is None else recording.answers,
        revisions=None if recording is None else recording.revisions,
        plan=request.plan,
        answered=request.answered,
        after_reading=after_reading,
        ticks=() if recording is None else recording.ticks,
        keeps=request.keeps,
        unread=request.unread,
        known=request.known,
        is_known_read=request.is_known_read,
        payloads=request.payloads if recording is None else recording.payloads,
    )


# --- other requests that may run user code ----------------------------------------------------------------------------


async def ask(worker: Connection, message: ToWorker, seconds: float) -> Received:
    """Send a request that may run user code and is no statement; return the answer, or the worker's death.

    After `seconds` the worker is interrupted, and after the grace it is killed. Cancelling kills the worker, because
    its answer would come late.
    """
    worker.send(message)
    return await wait_for(worker, worker.receive, seconds)


async def wait_for(
    worker: Connection, receive: Callable[[anyio.CancelScope], Awaitable[RequestAnswer | None]], seconds: float
) -> RequestAnswer | Death:
    """The same for a message without a request. `receive` is like `Connection.receive`."""
    try:
        answer = await receive(anyio.move_on_after(seconds))
        if answer is not None:
            worker.drain()
            return answer
        with anyio.move_on_after(GRACE_SECONDS):
            while answer is None:
                worker.interrupt()
                answer = await receive(anyio.move_on_after(REPEAT_SECONDS))
    except BaseException:
        await worker.kill()
        raise
    if answer is None:
        return await worker.kill()
    await forget_interrupts(worker)
    worker.drain()
    return answer


async def forget_interrupts(worker: Connection) -> None:
    """Make an idle worker forget a late interrupt, and end what was started since the last statement."""
    if worker.dead:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS) as limit:
        await worker.acknowledged()
        worker.send(CleanUp())
        while not isinstance(await worker.receive(anyio.CancelScope()), (CleanedUp, Death)):
            pass
    if limit.cancelled_caught:
        await worker.kill()


def _answer(ordinal: int, answer: EffectAnswer) -> Answer:
    return Answer(ordinal=ordinal, value=answer.value, error=answer.error)
