"""A namespace in a thread of the test process: an environment that starts in no time.

The statements, messages, interrupts and rebuilds are the engine's own code; only the process is missing:

- Nothing confines a statement. It can end the test process, and limits other than its time do not apply.
- A statement is interrupted at its next bytecode. One that waits in a system call is abandoned after the grace, and
  reported as the death of its worker. What a stopped statement has started goes on.
- Working directory, `sys.path`, `os.environ` and `sys.stdin` are those of the test process.
- Output is captured from Python's streams in the statement's own thread alone.
- `sys.modules["__main__"]` is not the namespace, so classes of statements cannot be pickled.
- Programs (`command`) run below the shared zygote, without the worker's domain.
- With the first guard, functions that start threads are replaced in the whole process. For other threads they do what
  they did before.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import io
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final, TextIO, cast

import anyio

from engine.core.domain import Domain
from engine.core.tokens import counter
from engine.files.outline.fallbacks import IndentationOutliner
from engine.runtime.connection import Capture, Connection
from engine.runtime.control_channel import Death, MessageReader, Parent
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.system import own_process
from engine.runtime.worker.channel import Inbox
from engine.runtime.worker.framing import FrameBuffer, frame
from engine.runtime.worker.guarding.guard import OutsideGuard
from engine.runtime.worker.interpreter import Interpreter, Request, serve
from engine.runtime.worker.interrupts import Interrupts, interruption
from engine.runtime.worker.protocol import Failed, FromWorker, Kept, Replay, Run, Stopping, ToWorker
from engine.runtime.worker.statements.executor import OwnPython
from engine.runtime.worker.statements.output import no_input
from engine.runtime.worker_environment import WorkerEnvironment
from engine.runtime.zygote import Zygote
from tests.support.workers import shared_zygote

# What passes between the host and a thread that interprets statements: frames' bodies, and a bell to wake the host.
#
# Messages pass as the same bytes as between processes, so that what is cleaned, refused or too large is so in both.
# Must not know what the messages mean. Used by `thread_connection`.

_CHUNK: Final = 4096


class HostGone(BaseException):
    """Raised in the thread where it waits for a message of a host that has closed the connection."""


class Doorbell:
    """Wakes whoever waits for `fileno` to be readable, which every event loop can; any thread may ring it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting, self._ringing = socket.socketpair()
        self._waiting.setblocking(False)
        self._ringing.setblocking(False)
        self._open = True

    def fileno(self) -> int:
        return self._waiting.fileno()

    def ring(self) -> None:
        # The lock, because the descriptor may be somebody else's once it was closed.
        with self._lock:
            if self._open:
                with suppress(BlockingIOError):
                    self._ringing.send(b"\0")

    def silence(self) -> None:
        with suppress(BlockingIOError):
            while len(self._waiting.recv(_CHUNK)) == _CHUNK:
                pass

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._waiting.close()
            self._ringing.close()


class ThreadChannel:
    """The thread's end, a `worker.effects.Transport`. Bodies of frames go through; None says that the host is gone."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell
        self._gone = False
        self.inbox = Inbox(self._bodies)
        self.to_thread: SimpleQueue[bytes | None] = SimpleQueue()
        self.to_host: deque[bytes] = deque()

    @property
    def ours(self) -> bool:
        return own_process.is_own()

    @property
    def idle(self) -> bool:
        return self.inbox.is_empty

    def send(self, message: FromWorker) -> None:
        self.to_host.append(body_of(message))
        self._bell.ring()

    def wait(self) -> None:
        """Returns at once and leaves the waiting to `receive`: an interrupt would not end it here either."""

    def receive(self) -> ToWorker:
        return self.inbox.receive()

    def take(self) -> ToWorker | None:
        return self.receive()

    def _bodies(self, seconds: float | None) -> Iterable[bytes]:
        if seconds == 0 and self.to_thread.empty():
            return
        try:
            body = None if self._gone else self.to_thread.get(timeout=seconds or None)
        except Empty:
            return
        if body is None:
            self._gone = True
            raise HostGone
        yield body


def body_of(message: ToWorker | FromWorker) -> bytes:
    """The message as it is between processes, without the length. Raises FrameTooLargeError."""
    buffer = FrameBuffer()
    buffer.feed(frame(message))
    body = buffer.next()
    assert body is not None
    return body


# thread interrupts:
# Interrupts of a statement that runs in a thread: `runtime.worker.interrupts.Interrupts` without a signal.
#
# Python raises an exception in another thread at that thread's next bytecode that looks for one, which may come long
# after it was asked for, and by then outside user code. What keeps it inside:
#
# 1. It is asked for only under the lock and while the flag says that user code runs, and once in a statement. 2.
# Whoever takes the flag down under the lock knows that none is asked for any more; one that was asked for and not
# raised yet is raised by the next function call. So `_disarm` makes one, and after it nothing is left to come. 3.
# Should it be raised on the way into or out of `armed`, the flag may stay up. That is harmless, because of the
# "once": nothing is asked for until `install` or `forget`, which take it down.
#
# All threads of a process share one mark that some of them has an exception to look for; whoever raises its own takes
# the mark down, and nobody else does. Two consequences: one thread may take down the mark of another, so an interrupt
# that is asked for again puts it up again; and a mark that nobody takes down slows every thread for good, and keeps
# CPython 3.11 from tracing at all. So whoever was interrupted takes it down by raising something in itself, and the
# host does that for a thread that is left behind.
#
# A thread that waits inside a system call or loops in C looks for nothing; it cannot be interrupted, and one whose
# loop keeps the GIL stops the whole process. Used by `thread_connection`, which interrupts from the host's thread.


class ThreadInterrupts:
    """KeyboardInterrupt for the thread that called `install`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0
        self._armed = False
        self._pending = False
        self._raised = False
        self._stopping: Stopping | None = None

    def announce(self, stopping: Stopping) -> None:
        """The next interrupt is for this reason."""
        with self._lock:
            self._stopping = stopping

    def interrupt(self) -> None:
        """Called by any other thread. A second one must not hit what cleans up after the first."""
        with self._lock:
            if self._raised:
                if self._armed:
                    _raise_in(threading.get_ident(), None)
                return
            self._pending = not self._armed
            if self._armed:
                self._raised = True
                _raise_in(self._thread, _raisable(self._stopping))

    def install(self) -> None:
        with self._lock:
            self._thread = threading.get_ident()
            self._armed = False
            self._raised = False

    @property
    def came(self) -> bool:
        with self._lock:
            return self._raised or self._pending

    def forget(self) -> None:
        with self._lock:
            self._armed = False
            self._pending = False
            self._raised = False
            self._stopping = None

    @contextmanager
    def armed(self) -> Generator[None]:
        with _without_gc_callbacks():
            self._arm()
            try:
                yield
            finally:
                self._disarm()

    @contextmanager
    def held(self) -> Generator[None]:
        if threading.get_ident() != self._thread or not self._armed:
            yield
            return
        self._disarm()
        try:
            yield
        finally:
            self._arm()

    def _arm(self) -> None:
        with self._lock:
            due, self._pending = self._pending, False
            self._armed = not due
            self._raised = self._raised or due
        if due:
            raise interruption(self._stopping)

    def _disarm(self) -> None:
        with self._lock:
            self._armed = False
            was_interrupted = self._raised
        _look_for_exceptions()
        if was_interrupted:
            _take_mark_down()

    def withdraw(self) -> None:
        """Called by the host for a thread that is left behind: what it has not been hit by will not come."""
        with self._lock:
            self._armed = False
        _raise_in(self._thread, None)
        _take_mark_down()


@contextmanager
def _without_gc_callbacks() -> Generator[None]:
    """Hypothesis has a callback for each collection, which would swallow an interrupt that is raised in it."""
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks


def _raisable(stopping: Stopping | None) -> type[BaseException]:
    """A class for `_raise_in`, which takes no instances: its instances are the exception for this reason."""
    error = interruption(stopping)
    kind = type(error)
    if kind is KeyboardInterrupt:
        return kind

    class Raisable(kind):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__(*error.args)

    Raisable.__name__ = Raisable.__qualname__ = kind.__name__
    Raisable.__module__ = kind.__module__
    return Raisable


def _look_for_exceptions() -> None:
    """Calling a function is what makes Python look."""


class _Nothing(BaseException):
    """Raised by a thread in itself, and caught at once."""


def _take_mark_down() -> None:
    """Has the calling thread raise an exception, in the place of one that may be waiting for it."""
    try:
        _raise_in(threading.get_ident(), _Nothing)
        _look_for_exceptions()
    except _Nothing:
        pass


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    wanted = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), wanted)


# thread output:
# The output of statements that run in threads of the host's process: which stream a thread writes to, and the pipe.
#
# `sys.stdout` and `sys.stderr` are one pair for the whole process. While any statement runs they are a pair that
# looks up the writing thread; a thread that runs no statement finds the host's own behind it. What children and C
# code write goes to the process's descriptors and is not seen here; what threads write that a statement started goes
# to the host's streams. Must not know what a statement is. Used by `thread_connection`.

STDOUT: Final = 0
STDERR: Final = 1
_FULL: Final = 1 << 16
"""Bytes on their way at which a writer waits, as at a pipe."""

Streams = tuple[TextIO, TextIO]


class OutputPipe:
    """Bytes on their way from a statement's thread to the host's. `wake` tells the host that there are some."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed = threading.Condition()
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._is_written = False
        self._open = True

    def begin(self) -> None:
        """A replay begins, and the host has read all that was written before."""
        self._is_written = False

    @property
    def silent(self) -> bool:
        """Whether nothing was written in the replay."""
        return not self._is_written

    def write(self, stream: int, data: bytes) -> None:
        """Waits while too much is on its way; drops what comes after `close`."""
        with self._changed:
            while self._open and self._size >= _FULL:
                self._changed.wait()
            if not self._open:
                return
            first = not self._pieces
            self._is_written = True
            self._pieces.append((stream, data))
            self._size += len(data)
        # The host takes all that is there, so it has been told of what follows the first.
        if first:
            self._wake()

    def take(self) -> list[tuple[int, bytes]]:
        """What is on its way, in the order of writing, with the stream of each piece."""
        with self._changed:
            pieces = list(self._pieces)
            self._pieces.clear()
            self._size = 0
            self._changed.notify_all()
        return pieces

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()


class _PipeEnd(io.RawIOBase):
    """The end of a pipe that a text stream writes to."""

    def __init__(self, pipe: OutputPipe, stream: int, interrupts: Interrupts) -> None:
        self._pipe = pipe
        self._stream = stream
        self._interrupts = interrupts

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        # A lock of the pipe's that an interrupt left locked would hold the host up.
        with self._interrupts.held():
            self._pipe.write(self._stream, piece)
        return len(piece)


def text_stream(pipe: OutputPipe, stream: int, interrupts: Interrupts) -> TextIO:
    """A text stream like a worker's: unbuffered, and what UTF-8 cannot say is written as escapes."""
    end = cast(BinaryIO, _PipeEnd(pipe, stream, interrupts))
    return io.TextIOWrapper(end, encoding="utf-8", errors="backslashreplace", write_through=True)


class _Routed:
    """What `sys.stdout` or `sys.stderr` is while statements run: the current thread's stream."""

    def __init__(self, stream: int) -> None:
        self._routed_stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(_ROUTES.current()[self._routed_stream], name)


class _Routes:
    """The streams of the threads that run statements, and the host's own behind them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[int, Streams] = {}
        self._left_behind: set[int] = set()
        self._routed = cast(Streams, (_Routed(STDOUT), _Routed(STDERR)))
        self._hosts: Streams = self._routed

    def current(self) -> Streams:
        return self._streams.get(threading.get_ident(), self._hosts)

    def begin(self, streams: Streams) -> None:
        with self._lock:
            # While another statement runs, what is there may be that statement's and not the host's.
            if self._streams.keys() <= self._left_behind:
                self._hosts = self._hosts_own(STDOUT, sys.stdout), self._hosts_own(STDERR, sys.stderr)
            sys.stdout, sys.stderr = self._routed
            self._streams[threading.get_ident()] = streams

    def _hosts_own(self, stream: int, present: TextIO) -> TextIO:
        return self._hosts[stream] if present is self._routed[stream] else present

    def replace(self, streams: Streams) -> None:
        with self._lock:
            self._streams[threading.get_ident()] = streams

    def leave_behind(self, thread: int) -> None:
        with self._lock:
            if thread in self._streams:
                self._left_behind.add(thread)

    def end(self) -> None:
        with self._lock:
            del self._streams[threading.get_ident()]
            self._left_behind.discard(threading.get_ident())
            if not self._streams:
                sys.stdout, sys.stderr = self._hosts


_ROUTES: Final = _Routes()


@contextmanager
def written_to(streams: Streams) -> Generator[None]:
    """What this thread writes to stdout and stderr meanwhile goes to `streams`."""
    _ROUTES.begin(streams)
    try:
        yield
    finally:
        _ROUTES.end()


def write_to(streams: Streams) -> None:
    """Within `written_to`: from now on it goes to these."""
    _ROUTES.replace(streams)


def leave_behind(thread: int) -> None:
    """This thread's statement may never end: its streams stay its own, and are no reason to mistrust the host's."""
    _ROUTES.leave_behind(thread)


# thread connection:
# An interpreter in a thread of the host's process, behind the same `Connection` as a worker.
#
# Owns the thread, its interrupts and its output. Must not know what a statement is. Opened by `in_process`.
#
# A thread cannot be killed. `kill` interrupts it and has it leave when it next looks for a message; one that does
# neither is left behind: it is a daemon, what it writes is dropped, and nobody waits for it.

_LEAVE_SECONDS: Final = 0.1
"""How long a thread is waited for; one that comes to it later leaves all the same."""

Count = Callable[[str], int]


class _Resident:
    """What lives in the thread: an interpreter with a namespace and streams of its own."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        channel: ThreadChannel,
        pipe: OutputPipe,
        interrupts: ThreadInterrupts,
        count: Count,
    ) -> None:
        # As a worker, which has to change into it.
        os.scandir(spec.cwd).close()
        self._pipe = pipe
        self._interrupts = interrupts
        self._streams = _streams(pipe, interrupts)
        self._interpreter = Interpreter(
            _namespace(),
            channel,
            interrupts,
            OutsideGuard(),
            count=count,
            cwd=spec.cwd,
            directories=spec.directories,
            confined=spec.confined,
            servers=spec.servers,
            prepare=self._prepare,
            flush=_nothing_more,
            output=pipe,
            python=OwnPython.of_nobody(),
            forks=False,
            outliner=IndentationOutliner(),
        )

    def answer(self, request: Request) -> FromWorker | None:
        """The interpreter's answer; what a statement writes meanwhile goes into the pipe."""
        if not isinstance(request, Run | Replay):
            return self._interpreter.answer(request)
        with written_to(self._streams):
            return self._interpreter.answer(request)

    def kept(self, execution_id: str) -> Kept:
        """What follows the answer to a request that `keeps`."""
        return self._interpreter.kept(execution_id)

    def _prepare(self) -> None:
        if any(stream.closed for stream in self._streams):
            self._streams = _streams(self._pipe, self._interrupts)
            write_to(self._streams)


class ThreadConnection(Connection):
    """The host's end of one thread, from its start until `close`."""

    def __init__(self, spec: EnvironmentSpec, count: Count | None) -> None:
        super().__init__(MessageReader(spec.redactor))
        self._bell = Doorbell()
        self._channel = ThreadChannel(self._bell)
        self._pipe = OutputPipe(self._bell.ring)
        self._interrupts = ThreadInterrupts()
        self._captures = (Capture(spec.redactor), Capture(spec.redactor))
        self._left = False
        self._spec = spec
        self._count = count
        self._thread = threading.Thread(target=self._work, name="statements", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            count = self._count or counter()
            resident = _Resident(self._spec, self._channel, self._pipe, self._interrupts, count)
            serve(self._channel, resident.answer, resident.kept, lambda: None)
        except HostGone:
            pass
        except Exception as error:
            self._channel.send(Failed(f"{type(error).__name__}: {error}"))
        finally:
            self._left = True
            self._bell.ring()

    # --- for the host ------------------------------------------------------------------------------------------------

    def send(self, message: ToWorker) -> None:
        self._channel.to_thread.put(body_of(message))

    def announce_stop(self, stopping: Stopping) -> None:
        self._interrupts.announce(stopping)

    def interrupt(self) -> None:
        self._interrupts.interrupt()

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        self._captures = (stdout, stderr)

    async def acknowledged(self) -> None:
        """An interrupt is sent as soon as it is asked for."""

    def drain(self) -> None:
        for stream, data in self._pipe.take():
            self._captures[stream].feed(data)

    def look(self) -> bool:
        if not self.dead:
            self._notice_end()
        return not self.dead

    def end(self) -> None:
        self._channel.to_thread.put(None)
        self._interrupts.interrupt()

    def close(self) -> None:
        """Has the thread leave, if it still listens, and drops what it goes on to write."""
        if self._closed:
            return
        self.end()
        self._closed = True
        self._pipe.close()
        self._bell.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        await anyio.wait_readable(self._bell.fileno())
        self._bell.silence()
        self.drain()
        self._notice_end()

    def _notice_end(self) -> None:
        if self._left and self._death is None:
            self._death = Death("the thread of its namespace was ended")

    def _next_body(self) -> bytes | None:
        return self._channel.to_host.popleft() if self._channel.to_host else None

    def _stop_reading(self) -> None:
        """Nothing more is looked at after a violation."""

    def _death_seconds(self) -> float:
        return _LEAVE_SECONDS

    def _give_up(self) -> Death:
        self._pipe.close()
        self._interrupts.withdraw()
        leave_behind(self._thread.ident or 0)
        return Death("a thread cannot be killed, so it was left behind, and its namespace with it")


def _namespace() -> dict[str, object]:
    """The names of a script, with builtins of its own: some of Python's belong to whoever is at the keyboard."""
    # The interactive `exit` closes stdin, which is the host's.
    replaced = {"input": no_input, "exit": sys.exit, "quit": sys.exit}
    return {"__name__": "__main__", "__builtins__": {**vars(builtins), **replaced}}


def _streams(pipe: OutputPipe, interrupts: ThreadInterrupts) -> Streams:
    return text_stream(pipe, STDOUT, interrupts), text_stream(pipe, STDERR, interrupts)


def _nothing_more() -> None:
    """What C code has buffered is the host's."""


class InProcessEnvironment(WorkerEnvironment):
    """One session's namespace, in a thread. `count` replaces the exact token counter, which is slow to load."""

    def __init__(self, count: Count | None = None) -> None:
        super().__init__(Zygote())  # it is never started
        self._count = count

    def _connect(self, spec: EnvironmentSpec) -> Connection:
        return ThreadConnection(spec, self._count)

    def _parent(self, domain: Domain | None) -> Parent:
        return shared_zygote()
