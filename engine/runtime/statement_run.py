"""One statement from request to outcome: its effects, time limit, interrupts and recorded contents."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeVar

import anyio
from msgspec import Struct

from ..core.execution import WORKER_DIED, ExceptionInfo, ExecutionStatus
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
    ToWorker,
)

# A request to a worker that may call code of the statements' own, and is no statement: interrupted when it takes
# long.
#
# An interrupt may come when the request is answered already; `forget_interrupts` then keeps it from the next
# statement, as at the end of a statement that was stopped (`statement_run` says why that is enough). Must not know
# what is asked. Used by `connected_environment` and `attempt`, and the last step by `statement_run`.

RequestAnswer = TypeVar("RequestAnswer")

REPEAT_SECONDS: Final = 0.1
"""Between two interrupts: one that comes just before a system call does not end that call."""
GRACE_SECONDS: Final = 5.0
"""After the first interrupt, before the worker is ended."""
LOADING_SECONDS: Final = 10.0
"""How long loading values may take before it is interrupted."""
_CLEAN_UP_SECONDS: Final = 5.0


async def ask(worker: Connection, message: ToWorker, seconds: float) -> Received:
    """The answer, or how the worker ended. After `seconds` it is interrupted, until the grace is over.

    A cancelled request ends the worker, who would be out of step.
    """
    worker.send(message)
    return await wait_for(worker, worker.receive, seconds)


async def wait_for(
    worker: Connection, receive: Callable[[anyio.CancelScope], Awaitable[RequestAnswer | None]], seconds: float
) -> RequestAnswer | Death:
    """The same for what comes without a request: `receive` is as `Connection.receive`."""
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
    """Has an idle worker forget an interrupt that came too late, and end what was started since the last statement."""
    if worker.dead:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_UP_SECONDS) as limit:
        await worker.acknowledged()
        worker.send(CleanUp())
        while not isinstance(await worker.receive(anyio.CancelScope()), (CleanedUp, Death)):
            pass
    if limit.cancelled_caught:
        await worker.kill()


# run message:
# A statement as the worker is asked for it, live or in a replay.
#
# Must not know when it is sent, nor what comes of it. Used by `statement_run` for one, and by `ahead` for a stretch.


class Recording(Struct, frozen=True, kw_only=True):
    """What a statement of a replay is given, as fields of `Run`."""

    answers: tuple[Answer, ...] = ()
    revisions: tuple[Look, ...] | None = ()
    after_reading: bool = False
    ticks: tuple[float, ...] = ()


def run_message(request: RunRequest, recording: Recording | None, *, after_reading: bool) -> Run:
    """The request as the worker takes it."""
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
    )


# sent contents:
# What a worker sends of one step: the contents that its nodes saw, which come ahead of the step's result.
#
# Owns their bound. A worker of ours keeps to it, but statements run there, and what they could send would be held in
# the host's memory. Used by `statement_run` and `connected_environment`.


class SentContents:
    """The contents of one step, by digest."""

    def __init__(self, worker: Connection) -> None:
        self._worker = worker
        self._contents: dict[str, bytes] = {}
        self._size = 0

    @property
    def contents(self) -> dict[str, bytes]:
        return self._contents

    def take(self, content: Content) -> None:
        """One more. With more than a step may send the worker is ended."""
        self._size += len(content.data)
        if self._size > STEP_CONTENT_BYTES:
            self._contents.clear()
            self._worker.violate(f"more than {STEP_CONTENT_BYTES >> 20} MiB of contents for one step")
        else:
            self._contents[content.digest] = content.data


# statement run:
# One statement from request to outcome: its effects, its time limit, its interrupt, and its worker's possible death.
#
# The worker is asked once (Run) and answers once (Ran). In between it may ask the host (Ask) and then waits for the
# Answer, so at each moment exactly one side is to speak, and a message out of turn is a violation that ends the
# worker; but for one: a statement whose wait for an answer was ended by an exception goes on, and what it says is
# heard next. (What it says of files that its own code writes asks for no answer, and the connection hands it on by
# itself.) Three things do not keep to turns: the time limit, an interrupt and the worker's death. Whatever they meet,
# the worker must afterwards be idle, with nothing of this statement on its way, or dead: the next statement trusts
# that.
#
# An interrupt is a signal, and signals have no place among the messages. It may arrive before the statement has begun
# (the worker remembers it), in a system call that it does not end (so it is repeated, every tenth of a second), while
# the worker waits for an answer (the host gives up the answer and says so), or when the statement has ended already.
# The last is the dangerous one, because it would hit the next statement. So the end of a stopped statement has two
# more steps: the host waits until every interrupt it asked for was sent, then says CleanUp. What is written after a
# signal was sent arrives after it, so a worker that reads CleanUp has had all of them: it forgets the one it may
# remember, ends what the statement has started, and answers CleanedUp. A statement that still runs when the grace is
# over is killed.
#
# The time limit is an interrupt by the host. Time in which the host answers an effect is not the statement's, so only
# the time spent receiving is counted. The status is the host's to say: a statement that caught its interrupt and
# ended well was stopped all the same. When whoever waits for the outcome is cancelled, the same steps are taken under
# a shield.
#
# Must not know sessions or the log, nor whether a process or a thread runs it. Used by `connected_environment`. A
# little over 300 lines, because whatever the worker may say meanwhile is answered in this one place.

_SENDING_SECONDS: Final = 10.0
"""What an ended statement's nodes saw may take so long to arrive."""
_STOPPED: Final = ExceptionInfo(type="InterruptedError", message="the statement is being stopped")

Stop = Literal["cancelled", "timeout"]
T = TypeVar("T")


class StatementRun:
    """The conversation with the worker about one statement. A `recording` is what it is given in a replay."""

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
        self._left = limits.statement_seconds if request.time_limit is None else request.time_limit
        self._scope: anyio.CancelScope | None = None
        """Of the wait for the next message."""
        self._answering: anyio.CancelScope | None = None
        self._early: Received | None = None
        """What the worker said while its effect was answered."""
        self._failure: Exception | None = None
        """What the output sink raised meanwhile."""
        self._outcome: RunOutcome | None = None
        self.touched: TouchSink = ignore_touched
        """Is told of the files that the statement's own code writes."""
        self.on_its_way: Callable[[], None] | None = None
        """Is called when the statement is on its way."""
        self.buffers: Buffers | None = None
        """What the user's editor holds of files."""
        self.after_reading = recording is not None and recording.after_reading

    async def conduct(self) -> RunOutcome:
        """Runs the statement to its end. When the awaiting task is cancelled, the statement is stopped first."""
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
        """Has SIGINT sent until it works, and SIGKILL when the grace is over; only the first call counts."""
        if self._stop is not None or self._outcome is not None:
            return
        self._stop = stop
        self._kill_at = anyio.current_time() + self._grace_seconds
        self._send_interrupt()
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + self._left
        if self._answering is not None:
            self._answering.cancel()

    # --- what is otherwise where several statements are asked for at once --------------------------------------------

    @property
    def _grace_seconds(self) -> float:
        return self._limits.grace_seconds

    async def _meanwhile(self) -> None:
        """What the host does as soon as the request is sent, while the worker is at it."""
        if self.on_its_way is not None:
            self.on_its_way()

    def _take_other(self, message: Received) -> None:
        self._worker.violate(f"{type(message).__name__} while a statement runs")

    # --- one statement -----------------------------------------------------------------------------------------------

    def _send_interrupt(self) -> None:
        self._worker.interrupt()
        self._left = max(0.0, min(REPEAT_SECONDS, self._kill_at - anyio.current_time()))

    def _message(self) -> Run | Replay:
        return run_message(self._request, self._recording, after_reading=self.after_reading)

    async def _wait_until_idle(self) -> None:
        """After a failure of the awaiting side: until the worker is idle or dead, whatever its output sink does."""
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
            # The time in which the host answers an effect is not the statement's.
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
                    # Nothing of ours may fail there, so what did is no longer ours.
                    self._worker.violate(f"the statement could not be run: {reason}")
                case _:
                    self._take_other(message)
        await self._clean_up()
        return self._outcome

    def _take(self, content: Content) -> None:
        if not self._sent.contents:
            # The statement has ended, within its time. What is on its way now is ours, and may take some more.
            self._left = max(self._left, _SENDING_SECONDS)
            self._kill_at = max(self._kill_at, anyio.current_time() + _SENDING_SECONDS)
        self._sent.take(content)

    async def _answer(self, ask: Ask) -> None:
        answer = EffectAnswer(error=_STOPPED)
        if self._stop is None:
            answer = await self._ask_handler(ask)
            if self._stop is not None:
                # The grace is the statement's; ending a program that it had asked for may have taken as long.
                self._kill_at = anyio.current_time() + self._limits.grace_seconds
        try:
            self._worker.send(_answer(ask.ordinal, answer))
        except (FrameTooLargeError, TypeError) as error:
            failure = ExceptionInfo(type="ValueError", message=f"the answer cannot be sent: {error}")
            self._worker.send(Answer(ordinal=ask.ordinal, error=failure))

    async def _ask_handler(self, ask: Ask) -> EffectAnswer:
        """The handler's answer; that of a stopped statement where nobody waits for it any more."""
        return await self._listening(lambda: self._handle(ask), EffectAnswer(error=_STOPPED))

    async def _tell_texts(self, ask: AskBuffers) -> None:
        texts: Mapping[str, str | None] = {}
        if self._stop is None and (buffers := self.buffers) is not None:
            texts = await self._listening(lambda: buffers.texts(ask.paths), texts)
        self._worker.send(BufferTexts(ask.number, dict(texts)))

    async def _listening(self, act: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """What `act` comes to, or `otherwise` where it is given up; what the worker says meanwhile is heard."""
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
        """Takes output while an effect is answered, and gives the answer up when the worker says anything.

        An answer may take minutes. What the statement has started prints meanwhile, and would wait with a full pipe. A
        worker that speaks now is dead, or an exception of its own has ended the wait for the answer.
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
        """What came of the statement; None where that cannot be, and the worker is ended for it."""
        try:
            if ran.execution_id != self._request.execution_id:
                raise ProtocolError("the result of another execution")
            events = self._worker.reader.events(ran.events)
        except ProtocolError as error:
            # Nothing came of it yet: the worker's death is what comes next.
            self._worker.violate(str(error))
            return None
        return RunOutcome(
            status=self._stop or ran.status,
            value=ran.value,
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
        """Ends what a stopped statement started, and makes sure that its interrupt does not hit the next statement."""
        if self._stop is not None:
            await forget_interrupts(self._worker)


def _answer(ordinal: int, answer: EffectAnswer) -> Answer:
    return Answer(ordinal=ordinal, value=answer.value, error=answer.error)
