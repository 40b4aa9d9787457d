"""The host's end of one worker: its messages, interrupts, output and death.

`WorkerConnection` owns every descriptor of the worker and one poller over them, so one await serves all of them and a
cancelled await loses nothing. Sending never blocks: what the socket does not take is sent during the next `receive`.
`Connection` is the part without descriptors: turns, protocol violations, and the wait for a death. Tests connect it to
a thread and to scripted workers. `Capture` bounds and redacts what a statement prints. Must not know what a statement
is. Used by `worker_environment`, `statement_run` and the rebuild. `Hiding` tells a worker what to leave out of texts
that it displays.
"""

from __future__ import annotations

import array
import asyncio
import codecs
import contextlib
import fcntl
import os
import socket
import termios
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread
import xxhash

from ..core.errors import EnvironmentUnavailableError
from ..core.execution import Captured
from ..core.text import whole_words_before_cut
from ..log.redaction import Redactor
from ..log.statements import TouchSink, ignore_touched
from .checkpoints import PausedWorker, adoption_pair
from .control_channel import (
    DEATH_SECONDS,
    ControlChannel,
    Death,
    MessageReader,
    Outbox,
    Parent,
    pipe,
    record_pair,
    socket_pair,
    start_of,
)
from .environment import EnvironmentSpec
from .programs import worker_variables
from .system.waiting import READABLE, WRITABLE, Poller
from .worker.framing import FrameBuffer, ProtocolError, frame
from .worker.processes.memory import LOOK_SECONDS
from .worker.protocol import (
    KEPT_BYTES,
    KEPT_GROUPS,
    TOUCHED_FILES,
    Adopt,
    AskHidden,
    Content,
    Fork,
    FromWorker,
    HiddenLines,
    Kept,
    Noted,
    OutputTaken,
    Snapshot,
    Stopping,
    Touching,
    ToWorker,
)

_DECODER: Final = codecs.getincrementaldecoder("utf-8")
CAPTURED_BYTES: Final = 64 << 10
"""Size of the text that is kept of one stream."""
_NOTHING: Final = Captured(digest=xxhash.xxh3_64_hexdigest(b""), kept_bytes=0)
"""Shared by the statements without output, because a session's log keeps every value in memory."""
START_SECONDS: Final = 30.0
"""Time for a worker to start."""
Received = FromWorker | Death
_CHUNK: Final = 65536
_READS: Final = 8
"""Chunks to read from one pipe before the others."""
_LOOK_SECONDS: Final = 0.5
"""Interval of checks for a stopped zygote. One that is stopped twice in a row is killed."""


class Connection(ABC):
    """One worker, from its start until `close`; `reader` decodes and redacts its messages."""

    def __init__(self, reader: MessageReader) -> None:
        self.reader = reader
        self._death: Death | None = None
        self._violation: str | None = None
        self._closed = False
        self._touched: TouchSink = ignore_touched
        self._hiding = Hiding(reader.redactor)
        self._asked_hidden = 0
        self._answering: set[asyncio.Task[None]] = set()
        self._notices = 0
        self._keeping: str | None = None
        self._kept: Kept | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process id, once it is known."""
        return None

    @property
    def dead(self) -> bool:
        return self._death is not None or self._closed

    @abstractmethod
    def send(self, message: ToWorker) -> None:
        """Queue the message. Raises FrameTooLargeError with nothing queued."""

    def announce_stop(self, stopping: Stopping) -> None:
        """Tell the worker why the next interrupt stops its statement."""
        self.send(stopping)

    @abstractmethod
    def interrupt(self) -> None:
        """Interrupt the running statement once; may be repeated."""

    @abstractmethod
    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        """Collect the output from now on in these."""

    def begin_touches(self, touched: TouchSink) -> None:
        """Report files that the statement's own code is about to write to this, from now on."""
        self._touched = touched
        self._notices = 0

    def announce_reading(self, on: bool) -> None:
        """While on, send `OutputTaken` before the first read of the worker's output."""
        del on

    def begin_keeping(self, execution_id: str | None) -> None:
        """Expect the values of this execution after its result; None: expect none."""
        self._keeping = execution_id
        self._kept = None

    @property
    def keeping(self) -> bool:
        """Whether values are expected that were not taken yet."""
        return self._keeping is not None

    def kept(self) -> Kept | None:
        """The values that followed the last statement, if they arrived. Not during `receive`."""
        if self._keeping is not None and self._hear_kept() is None and self.look():
            self._hear_kept()
        return self._kept

    async def receive_kept(self, scope: anyio.CancelScope) -> Kept | Death | None:
        """Wait for them: the values, or the death, or None when `scope` ends first, which this enters."""
        with scope:
            while (heard := self._hear_kept()) is None:
                await self._progress()
            return heard
        return None

    def _hear_kept(self) -> Kept | Death | None:
        message = None if self._kept is not None else self._next()
        if message is not None and not isinstance(message, Death):
            self.violate(f"unexpected {type(message).__name__} between two requests")
            return None
        return self._kept or message

    def watch_memory(self, on: bool) -> None:
        """Limit the memory of the worker with its descendants while a statement runs."""
        del on

    def snapshot(self, data_bytes: int) -> PausedWorker | None:
        """Request a checkpoint after the requests so far, and return at once. None if there are no checkpoints.

        Raises:
            OSError: the request cannot be sent.
        """
        del data_bytes
        return None

    @abstractmethod
    def drain(self) -> None:
        """Read the output that is there now. No more, because a background process may write for ever."""

    @abstractmethod
    def look(self) -> bool:
        """Whether the worker is alive, without waiting. Not during `receive`."""

    @abstractmethod
    def end(self) -> None:
        """End the worker; `receive` returns its death."""

    @abstractmethod
    def close(self) -> None:
        """Close everything; may be repeated."""

    @abstractmethod
    async def acknowledged(self) -> None:
        """Wait until every requested interrupt has been sent, or the worker is dead."""

    async def receive(self, scope: anyio.CancelScope) -> Received | None:
        """Return the next message, or the death, or None when `scope` ends first, which this enters."""
        with scope:
            while (message := self._next()) is None:
                await self._progress()
            return message
        return None

    async def first(self) -> Received | None:
        """Return the first message, or the death, or None if neither came in time."""
        return await self.receive(anyio.move_on_after(START_SECONDS))

    async def kill(self) -> Death:
        """End the worker and return its death, within seconds. Not during `receive`."""
        self.end()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self._death_seconds()):
                while self._death is None:
                    await self._progress()
        # After a pause of the whole machine the time is over before anything was read.
        if self._death is None:
            self.look()
        if self._death is None:
            self._death = self._give_up()
        return self._cause(self._death)

    def violate(self, reason: str) -> None:
        """End a worker that broke the protocol, and read nothing more from it."""
        self._violation = f"protocol violation: {reason}"
        self._stop_reading()
        self.end()

    # --- for the implementations -------------------------------------------------------------------------------------

    @abstractmethod
    async def _progress(self) -> None:
        """Wait until something can be read or written, and do it."""

    @abstractmethod
    def _next_body(self) -> bytes | None:
        """Return the body of the next frame, if it arrived. Raises ProtocolError."""

    @abstractmethod
    def _stop_reading(self) -> None: ...

    @abstractmethod
    def _death_seconds(self) -> float:
        """Time for the worker to end before `_give_up`."""

    @abstractmethod
    def _give_up(self) -> Death:
        """End a worker that did not end in time, and return its death."""

    def _next(self) -> Received | None:
        if self._violation is None:
            try:
                while (body := self._next_body()) is not None:
                    message = self.reader.message(body)
                    if isinstance(message, Kept):
                        self._take_kept(message)
                    elif isinstance(message, Touching):
                        self._take_touch(message)
                    elif isinstance(message, AskHidden):
                        self._take_hidden(message)
                    else:
                        return message
            except ProtocolError as error:
                self.violate(str(error))
        return None if self._death is None else self._cause(self._death)

    def _take_touch(self, message: Touching) -> None:
        self._notices += 1
        # Twice the limit, because several threads may each send the last one at the same time.
        if self._notices > 2 * TOUCHED_FILES:
            raise ProtocolError("a statement reported too many files")
        number = message.number
        self._touched(message.path, lambda: self._answer_notice(number))

    def _take_hidden(self, ask: AskHidden) -> None:
        self._asked_hidden += 1
        # One at a time by its own code; a few more if statements were interrupted while they waited.
        if self._asked_hidden > _MOST_ASKED:
            raise ProtocolError("the worker asked for hidden lines too often at once")
        answering = asyncio.get_running_loop().create_task(self._tell_hidden(ask))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _tell_hidden(self, ask: AskHidden) -> None:
        try:
            lines = await self._hiding.lines(ask.text)
        finally:
            self._asked_hidden -= 1
        if not self.dead and self._violation is None:
            self.send(HiddenLines(ask.number, lines))

    def _answer_notice(self, number: int) -> None:
        if not self.dead and self._violation is None:
            self.send(Noted(number))

    def _take_kept(self, message: Kept) -> None:
        if message.execution_id != self._keeping:
            return  # of an earlier statement, without a request
        if self._kept is not None:
            raise ProtocolError("values of one execution were sent twice")
        if len(message.groups) > KEPT_GROUPS or sum(len(group.data) for group in message.groups) > KEPT_BYTES:
            raise ProtocolError("the worker sent too many values without a request")
        self._kept = message

    def _cause(self, death: Death) -> Death:
        return Death(self._violation) if self._violation else death


class WorkerConnection(Connection):
    """One worker, from the request to fork it until `close`."""

    def __init__(
        self,
        zygote: Parent,
        control: socket.socket,
        worker: socket.socket,
        pipes: list[int],
        handover: socket.socket,
        reader: MessageReader,
    ) -> None:
        super().__init__(reader)
        self._handover = handover
        self._zygote = zygote
        self._poller = Poller()
        self._control = ControlChannel(zygote, control, self._poller, "the worker")
        self._worker = worker
        self._outbox = Outbox(worker, self._poller)
        self._pipes = {descriptor: Capture(reader.redactor) for descriptor in pipes}
        self._frames = FrameBuffer()
        self._hung_up = False
        self._watch: asyncio.TimerHandle | None = None
        self._is_watched = False
        self._runs_since: float | None = None
        """The event loop's time at the start of the running statement."""
        self._announces = self._announced = False
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            self._poller.register(descriptor, READABLE)

    @property
    def pid(self) -> int | None:
        """The worker's process id, once it is known."""
        return self._control.pid

    @classmethod
    def open(cls, zygote: Parent, spec: EnvironmentSpec) -> WorkerConnection:
        """Request a worker and return at once. Its first message is Started, or Failed, or it is dead.

        Raises:
            EnvironmentUnavailableError: its parent cannot be reached.
        """
        zygote.ensure()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                control, worker = (socket_pair(ours, theirs) for _ in range(2))
                handover = record_pair(ours, theirs)
                pipes = [pipe(ours, theirs) for _ in range(2)]
                writers = [writer for _, writer in pipes]
                zygote.fork([control[1].fileno(), worker[1].fileno(), *writers, handover[1].fileno()])
                readers, reader = [end for end, _ in pipes], MessageReader(spec.redactor)
                connection = cls(zygote, control[0], worker[0], readers, handover[0], reader)
                ours.pop_all()
                ours.callback(connection.close)
                request = connection._fork_request(spec)
                connection._outbox.post(frame(request))
                connection._control.begin(start_of(request))
            except (OSError, ProtocolError) as error:
                raise EnvironmentUnavailableError(f"the request for a worker failed: {error}") from error
            ours.pop_all()
            return connection

    @classmethod
    def restore(cls, zygote: Parent, checkpoint: PausedWorker, spec: EnvironmentSpec) -> WorkerConnection:
        """Request a worker that continues from a checkpoint.

        Raises:
            EnvironmentUnavailableError: its parent or the checkpoint cannot be reached.
        """
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                control, worker = (socket_pair(ours, theirs) for _ in range(2))
                handover, known = record_pair(ours, theirs), adoption_pair(theirs)
                outlines = theirs.enter_context(zygote.ask_outlines())
                pipes = [pipe(ours, theirs) for _ in range(2)]
                writers = [writer for _, writer in pipes]
                zygote.fork([control[1].fileno(), known[0].fileno()])
                readers, reader = [end for end, _ in pipes], MessageReader(spec.redactor)
                connection = cls(zygote, control[0], worker[0], readers, handover[0], reader)
                ours.pop_all()
                ours.callback(connection.close)
                connection._control.begin(Adopt(spec.limits.data_bytes, spec.domain))
                sockets = (handover[1], outlines, known[1])
                checkpoint.hand_over([worker[1].fileno(), *writers, *(each.fileno() for each in sockets)])
            except OSError as error:
                raise EnvironmentUnavailableError(f"restoring a worker failed: {error}") from error
            ours.pop_all()
            return connection

    def snapshot(self, data_bytes: int) -> PausedWorker:
        """Request a checkpoint; see `Connection.snapshot`. Raises OSError."""
        if not self._control.is_of_this_zygote:
            raise OSError("the worker's parent was replaced")
        checkpoint = PausedWorker.ask_for(self._zygote, self._handover, data_bytes, self.reader)
        self.send(Snapshot())
        return checkpoint

    def _fork_request(self, spec: EnvironmentSpec) -> Fork:
        return Fork(
            cwd=spec.cwd,
            directories=spec.directories,
            confined=spec.confined,
            kept_out=spec.kept_out,
            servers=spec.servers,
            import_paths=spec.import_paths,
            variables=worker_variables(spec),
            data_bytes=spec.limits.data_bytes,
            open_files=spec.limits.open_files,
            allow_sudo=spec.allow_sudo,
            domain=spec.domain,
        )

    async def first(self) -> Received | None:
        deadline, was_stopped = time.monotonic() + START_SECONDS, False
        while (left := deadline - time.monotonic()) > 0:
            message = await self.receive(anyio.move_on_after(min(left, _LOOK_SECONDS)))
            if message is not None:
                await self._known()
                return message
            is_stopped = not self._control.forked and self._zygote.stopped
            if is_stopped and was_stopped:
                self._zygote.kill()
            was_stopped = is_stopped
        return None

    async def _known(self) -> None:
        """Wait until the process id is known, which the zygote reports, not the worker."""
        with anyio.move_on_after(_LOOK_SECONDS):
            while self._control.pid is None and not self.dead:
                await self._progress()

    def send(self, message: ToWorker) -> None:
        # A content precedes the message that needs it; sent together, they wake the worker once.
        self._outbox.post(frame(message), more=isinstance(message, Content))

    def interrupt(self) -> None:
        self._control.interrupt()

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        for descriptor, capture in zip(tuple(self._pipes), (stdout, stderr), strict=True):
            self._pipes[descriptor] = capture

    def announce_reading(self, on: bool) -> None:
        self._announces, self._announced = on, False

    def watch_memory(self, on: bool) -> None:
        # Statements that end before the first look cost the zygote nothing, and many in a row cost one timer.
        if self._is_watched and not self.dead:
            self._control.watch_memory(False)
        self._is_watched = False
        self._runs_since = asyncio.get_running_loop().time() if on else None
        if on and self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._begin_watch)

    def _begin_watch(self) -> None:
        self._watch = None
        if self.dead:
            return
        if self._runs_since is None:  # one look, because a short statement may have left processes
            self._control.watch_memory(False)
            return
        loop = asyncio.get_running_loop()
        due = self._runs_since + LOOK_SECONDS
        if loop.time() < due:  # the timer was set for an earlier statement
            self._watch = loop.call_at(due, self._begin_watch)
        else:
            self._is_watched = True
            self._control.watch_memory(True)

    def drain(self) -> None:
        # Two messages may arrive in one piece, ahead of the output that was written between them.
        for descriptor, capture in self._pipes.items():
            waiting = array.array("i", [0])
            fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
            while waiting[0] > 0 and (data := os.read(descriptor, min(_CHUNK, waiting[0]))):
                waiting[0] -= len(data)
                capture.feed(data)

    def look(self) -> bool:
        if not self.dead:
            self._serve_ready()
        return not self.dead and not self._hung_up

    async def acknowledged(self) -> None:
        while self._control.unacknowledged and not self.dead:
            await self._progress()

    def end(self) -> None:
        """End the worker with all its descendants."""
        if not self.dead:
            self._control.end()

    def close(self) -> None:
        """Close all descriptors. The zygote ends a worker whose control channel closes."""
        if self._closed:
            return
        self._closed = True
        for answering in self._answering:
            answering.cancel()
        if self._watch is not None:
            self._watch.cancel()
        self._poller.close()
        self._control.close()
        self._worker.close()
        self._handover.close()
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = {}

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        await anyio.wait_readable(self._poller.fileno())
        self._serve_ready()

    def _next_body(self) -> bytes | None:
        return self._frames.next()

    def _stop_reading(self) -> None:
        self._outbox.stop_reading()

    def _death_seconds(self) -> float:
        return DEATH_SECONDS if self._control.forked else 0.0

    def _give_up(self) -> Death:
        return self._control.give_up()

    def _serve_ready(self) -> None:
        for descriptor, events in self._poller.poll(0):
            if descriptor in self._pipes:
                if self._may_read():
                    self._read_pipe(descriptor)
            elif descriptor == self._control.fileno():
                self._control.serve(events)
                self._death = self._death or self._control.death
            else:
                if events & WRITABLE:
                    self._outbox.flush()
                if events & ~WRITABLE:
                    self._read_worker()

    def _may_read(self) -> bool:
        """Whether output may be read: in a replay, the worker must receive `OutputTaken` first.

        That can wait until the whole request was sent, because the worker runs nothing before.
        """
        if not self._announces:
            return True
        if not self._announced and not self._outbox.waiting:
            self._announced = True
            self.send(OutputTaken())
        return self._announced and not self._outbox.waiting

    def _read_pipe(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(descriptor, _CHUNK)
                if not data:
                    self._poller.unregister(descriptor)
                    return
                self._pipes[descriptor].feed(data)

    def _read_worker(self) -> None:
        try:
            data = self._worker.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._control.forked = True  # the zygote may report it later than the worker
            self._frames.feed(data)
        else:
            # The death follows: a worker that loses its socket ends itself.
            self._hung_up = True
            self._outbox.stop_reading()


class Capture:
    """One stream's output in constant memory: its beginning as text, everything as a count and a digest.

    `sink` receives the redacted text while it grows. If its end may be the beginning of a secret, that end is sent with
    the next piece. Invalid UTF-8 becomes U+FFFD; the text ends at a character boundary.
    """

    def __init__(self, redactor: Redactor, sink: Callable[[str], None] | None = None) -> None:
        self._redactor = redactor
        self._sink = sink
        self._held = ""
        """Text that the sink has not received."""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._digest = xxhash.xxh3_64()
        self._texts: list[str] = []
        self._total = 0

    def feed(self, data: bytes) -> None:
        room = CAPTURED_BYTES - self._total
        self._total += len(data)
        self._digest.update(data)
        if room > 0:
            self._decoder = self._decoder or _DECODER("replace")
            self._keep(self._decoder.decode(data[:room]))

    def finish(self) -> Captured:
        """Return the output. An incomplete character at its end becomes U+FFFD; one that was cut is dropped."""
        if not self._total:
            return _NOTHING
        if self._decoder is not None and self._total <= CAPTURED_BYTES:
            self._keep(self._decoder.decode(b"", final=True))
        text = "".join(self._texts)
        kept = whole_words_before_cut(text) if self._total > CAPTURED_BYTES else text
        shown = self._redactor.redact(kept)
        # The digest of a text with a secret would let others check guesses of it.
        digest = self._digest.hexdigest() if shown == kept else xxhash.xxh3_64_hexdigest(shown.encode())
        return Captured(
            text=shown,
            total_bytes=self._total,
            digest=digest,
            kept_bytes=min(self._total, CAPTURED_BYTES),
        )

    def _keep(self, text: str) -> None:
        if text:
            self._texts.append(text)
            if self._sink is not None:
                shown, self._held = self._redactor.redact_piece(self._held + text)
                if shown:
                    self._sink(shown)


_MOST_ASKED: Final = 8
_HIDDEN_HERE: Final = 4 << 10
"""The bytes of the longest text that is searched on the event loop, which takes about a millisecond."""
_HIDDEN_AT_ONCE: Final = 64 << 20
_HIDDEN_EACH_SECOND: Final = 4 << 20


class Hiding:
    """Answers which lines of a worker's texts have secrets, at a limited speed.

    Code in a worker could ask too, and so check whether a guess is a secret. The limit keeps that slow: beyond
    _HIDDEN_AT_ONCE bytes an answer waits.
    """

    def __init__(self, redactor: Redactor, now: Callable[[], float] = time.monotonic) -> None:
        self._redactor = redactor
        self._now = now
        self._free = now()
        """When the answers so far are paid for."""

    def delay(self, size: int) -> float:
        """Count a text of this size; return the seconds that its answer must wait."""
        now = self._now()
        self._free = max(self._free, now) + size / _HIDDEN_EACH_SECOND
        return max(0.0, self._free - now - _HIDDEN_AT_ONCE / _HIDDEN_EACH_SECOND)

    async def lines(self, text: bytes) -> dict[int, str]:
        """Return the lines with secrets, without these, by number from 0."""
        if delay := self.delay(len(text)):
            await anyio.sleep(delay)
        if len(text) <= _HIDDEN_HERE:
            return self._lines(text)
        return await anyio.to_thread.run_sync(self._lines, text)

    def _lines(self, text: bytes) -> dict[int, str]:
        return self._redactor.hidden_lines(text.decode("utf-8", "replace"))
