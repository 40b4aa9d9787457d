"""The host's end of one worker process: its descriptors, its frames, its output, its end.

Owns every descriptor of the worker and one epoll over them, so that a single await serves them all and a cancelled
await loses nothing. Sending never blocks: what the socket does not take waits for the next `receive`. Must not know
what a statement is. Opened by `worker_environment`.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import math
import os
import select
import socket
import termios
import time
from typing import Final

import anyio

from ..errors import EnvironmentUnavailableError
from ..ports import EnvironmentSpec
from ..worker.framing import FrameBuffer, ProtocolError, frame, from_zygote
from ..worker.memory import LOOK_SECONDS
from ..worker.protocol import Died, Fork, Forked, Interrupt, Interrupted, Kill, ToWorker, Watch
from .capture import Capture
from .connection import START_SECONDS, Connection, Received
from .death import Death, describe_status
from .zygote import Zygote

_CHUNK: Final = 65536
_READS: Final = 8
"""Chunks taken from one pipe before others have their turn."""
_DEATH_SECONDS: Final = 5.0
"""How long the zygote may take to report a death before it is ended itself."""
_LOOK_SECONDS: Final = 0.5
"""Between two looks at a zygote that has not forked yet: one that is stopped at both is given up."""
_FORK_SECONDS: Final = 30.0
"""How long it may take to fork: on a busy machine it may still be loading for a while."""


class WorkerConnection(Connection):
    """One worker, from the request to fork it until `close`."""

    def __init__(self, zygote: Zygote, control: socket.socket, worker: socket.socket, pipes: list[int]) -> None:
        super().__init__()
        self._zygote = zygote
        self._brand = zygote.brand
        self._control = control
        self._worker = worker
        self._pipes = {descriptor: Capture() for descriptor in pipes}
        self._outgoing = {control.fileno(): bytearray(), worker.fileno(): bytearray()}
        self._frames = FrameBuffer()
        self._control_frames = FrameBuffer()
        self._unacknowledged = 0
        self._forked = False
        self._requested_at = time.monotonic()
        self._hung_up = False
        self._watch_at = math.inf
        self._is_watched = False
        self.pid: int | None = None
        self._epoll = select.epoll()
        for descriptor in (*self._outgoing, *pipes):
            os.set_blocking(descriptor, False)
            self._epoll.register(descriptor, select.EPOLLIN)

    @classmethod
    def open(cls, zygote: Zygote, spec: EnvironmentSpec) -> WorkerConnection:
        """Asks for a worker and returns at once; its first message is Started, or Failed, or it is dead.

        Raises:
            EnvironmentUnavailableError: nobody can be asked.
        """
        zygote.ensure()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                control, worker = (_socket_pair(ours, theirs) for _ in range(2))
                pipes = [_pipe(ours, theirs) for _ in range(2)]
                zygote.fork([control[1].fileno(), worker[1].fileno(), *(writer for _, writer in pipes)])
                connection = cls(zygote, control[0], worker[0], [reader for reader, _ in pipes])
                ours.pop_all()
                ours.callback(connection.close)
                connection._post(connection._control, frame(connection._fork_request(spec)))
            except (OSError, ProtocolError) as error:
                raise EnvironmentUnavailableError(f"no worker could be requested: {error}") from error
            ours.pop_all()
            return connection

    def _fork_request(self, spec: EnvironmentSpec) -> Fork:
        return Fork(
            cwd=spec.cwd,
            directories=spec.directories,
            import_paths=spec.import_paths,
            variables=spec.variables,
            data_bytes=spec.limits.data_bytes,
            open_files=spec.limits.open_files,
            allow_sudo=spec.allow_sudo,
        )

    async def first(self) -> Received | None:
        deadline, was_stopped = time.monotonic() + START_SECONDS, False
        while (left := deadline - time.monotonic()) > 0:
            message = await self.receive(anyio.move_on_after(min(left, _LOOK_SECONDS)))
            if message is not None:
                return message
            is_stopped = not self._forked and self._zygote.stopped
            if is_stopped and was_stopped:
                self._zygote.kill()
            was_stopped = is_stopped
        return None

    def send(self, message: ToWorker) -> None:
        self._post(self._worker, frame(message))

    def interrupt(self) -> None:
        self._unacknowledged += 1
        self._post(self._control, frame(Interrupt()))

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        for descriptor, capture in zip(tuple(self._pipes), (stdout, stderr), strict=True):
            self._pipes[descriptor] = capture

    def watch_memory(self, on: bool) -> None:
        # A statement that is over before a first look was due costs the zygote nothing.
        self._watch_at = time.monotonic() + LOOK_SECONDS if on else math.inf
        if self._is_watched and not on and not self.dead:
            self._post(self._control, frame(Watch(False)))
        self._is_watched = False

    def drain(self) -> None:
        # A message that came in one piece with the one before it is ahead of the output written between the two.
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
        while self._unacknowledged and not self.dead:
            await self._progress()

    def end(self) -> None:
        """Has the worker ended with all its descendants."""
        if not self.dead:
            self._post(self._control, frame(Kill()))

    def close(self) -> None:
        """Gives all descriptors back. Closing the control channel has the zygote end a worker that still runs."""
        if self._closed:
            return
        self._closed = True
        self._epoll.close()
        self._control.close()
        self._worker.close()
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = {}

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        if self._watch_at < math.inf:
            with anyio.move_on_after(self._watch_at - time.monotonic()) as limit:
                await anyio.wait_readable(self._epoll.fileno())
            if limit.cancelled_caught:
                self._watch_at, self._is_watched = math.inf, True
                self._post(self._control, frame(Watch(True)))
        else:
            await anyio.wait_readable(self._epoll.fileno())
        self._serve_ready()

    def _next_body(self) -> bytes | None:
        return self._frames.next()

    def _stop_reading(self) -> None:
        self._unregister(self._worker.fileno())

    def _death_seconds(self) -> float:
        return _DEATH_SECONDS if self._forked else 0.0

    def _give_up(self) -> Death:
        # Of a worker that was not forked yet nobody has to know the end: the zygote, which may be loading what all
        # workers need and be needed by others, finds its control channel closed when it comes to it.
        if not self._forked and time.monotonic() - self._requested_at < _FORK_SECONDS:
            return Death("the worker was not needed any more when its parent could start it")
        # A parent that is only busy has other workers, which must not end for that.
        if self.pid is not None and not self._zygote.stopped and self._zygote.kill_worker(self.pid, self._brand):
            return Death("the worker was killed, and its parent was too busy to say how it ended")
        self._zygote.kill()
        return Death("the parent of the worker did not answer and was ended")

    def _unregister(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            self._epoll.unregister(descriptor)

    def _post(self, connection: socket.socket, data: bytes) -> None:
        queue = self._outgoing[connection.fileno()]
        queue += data
        self._flush(connection)

    def _flush(self, connection: socket.socket) -> None:
        queue = self._outgoing[connection.fileno()]
        try:
            while queue:
                del queue[: connection.send(queue[: 1 << 20])]
        except BlockingIOError:
            pass
        except OSError:
            queue.clear()  # the other end is gone, which reading will show
        events = select.EPOLLIN | (select.EPOLLOUT if queue else 0)
        with contextlib.suppress(OSError):
            self._epoll.modify(connection.fileno(), events)

    def _serve_ready(self) -> None:
        for descriptor, events in self._epoll.poll(0):
            if descriptor in self._pipes:
                self._read_pipe(descriptor)
                continue
            connection = self._control if descriptor == self._control.fileno() else self._worker
            if events & select.EPOLLOUT:
                self._flush(connection)
            if events & ~select.EPOLLOUT:
                self._read(connection)

    def _read_pipe(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(descriptor, _CHUNK)
                if not data:
                    self._unregister(descriptor)
                    return
                self._pipes[descriptor].feed(data)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if connection is self._control:
            self._receive_from_zygote(data)
        elif data:
            self._forked = True  # which the zygote may say later than the worker
            self._frames.feed(data)
        else:
            # The death follows: a worker that finds its socket gone ends itself.
            self._hung_up = True
            self._unregister(self._worker.fileno())

    def _receive_from_zygote(self, data: bytes) -> None:
        if not data:
            self._unregister(self._control.fileno())
            if self._death is None:
                self._zygote.sweep(self._brand)
                self._death = Death("the parent of the worker died, and the worker with it", again=not self._forked)
            return
        self._control_frames.feed(data)
        while (body := self._control_frames.next()) is not None:
            match from_zygote(body):
                case Forked(pid=pid):
                    self.pid, self._forked = pid, True
                case Interrupted():
                    self._unacknowledged -= 1
                case Died(wait_status=status, reason=reason):
                    self._death = Death(reason or describe_status(status))


def _socket_pair(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    left, right = socket.socketpair()
    ours.callback(left.close)
    theirs.callback(right.close)
    return left, right


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    ours.callback(os.close, reader)
    theirs.callback(os.close, writer)
    return reader, writer
