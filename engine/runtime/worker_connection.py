"""The host's end of one worker process: its descriptors, its frames, its output, its end.

Owns every descriptor of the worker and one epoll over them, so that a single await serves them all and a cancelled
await loses nothing. Sending never blocks: what the socket does not take waits for the next `receive`. Must not know
what a statement is. Opened by `worker_environment`.
A little over 300 lines, because whoever owns the descriptors closes them here, whatever ends first.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import select
import socket
import termios
import time
from typing import Final

import anyio

from ..core.errors import EnvironmentUnavailableError
from .checkpoints import PausedWorker, adoption_pair
from .connection import START_SECONDS, Capture, Connection, Received
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
)
from .environment import EnvironmentSpec
from .programs import worker_variables
from .worker.framing import FrameBuffer, ProtocolError, frame
from .worker.processes.memory import LOOK_SECONDS
from .worker.protocol import Adopt, Content, Fork, OutputTaken, Snapshot, ToWorker

_CHUNK: Final = 65536
_READS: Final = 8
"""Chunks taken from one pipe before others have their turn."""
_LOOK_SECONDS: Final = 0.5
"""Between two looks at a zygote that has not forked yet: one that is stopped at both is given up."""


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
        self._epoll = select.epoll()
        self._control = ControlChannel(zygote, control, self._epoll, "the worker")
        self._worker = worker
        self._outbox = Outbox(worker, self._epoll)
        self._pipes = {descriptor: Capture(reader.redactor) for descriptor in pipes}
        self._frames = FrameBuffer()
        self._hung_up = False
        self._watch: asyncio.TimerHandle | None = None
        self._is_watched = False
        self._runs_since: float | None = None
        """Since when a statement runs, by the clock of the loop."""
        self._announces = self._announced = False
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            self._epoll.register(descriptor, select.EPOLLIN)

    @property
    def pid(self) -> int | None:
        """The worker's process id, once it is known."""
        return self._control.pid

    @classmethod
    def open(cls, zygote: Parent, spec: EnvironmentSpec) -> WorkerConnection:
        """Asks for a worker and returns at once; its first message is Started, or Failed, or it is dead.

        Raises:
            EnvironmentUnavailableError: nobody can be asked.
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
                connection._control.begin(connection._fork_request(spec))
            except (OSError, ProtocolError) as error:
                raise EnvironmentUnavailableError(f"no worker could be requested: {error}") from error
            ours.pop_all()
            return connection

    @classmethod
    def restore(cls, zygote: Parent, checkpoint: PausedWorker, spec: EnvironmentSpec) -> WorkerConnection:
        """The same for a worker that goes on where a checkpoint is.

        Raises:
            EnvironmentUnavailableError: nobody can be asked.
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
                raise EnvironmentUnavailableError(f"no worker could be restored: {error}") from error
            ours.pop_all()
            return connection

    def snapshot(self, data_bytes: int) -> PausedWorker:
        """Has the worker make a checkpoint of itself, after what was asked of it before; returns at once.

        Raises:
            OSError: nobody can be asked.
        """
        if not self._control.is_of_this_zygote:
            raise OSError("the worker's parent is another by now")
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
        """Returns when the process id is known, which is said by another process than the worker."""
        with anyio.move_on_after(_LOOK_SECONDS):
            while self._control.pid is None and not self.dead:
                await self._progress()

    def send(self, message: ToWorker) -> None:
        # A content comes before the message that needs it, and both in one piece wake the worker once.
        self._outbox.post(frame(message), more=isinstance(message, Content))

    def interrupt(self) -> None:
        self._control.interrupt()

    def begin_capture(self, stdout: Capture, stderr: Capture) -> None:
        for descriptor, capture in zip(tuple(self._pipes), (stdout, stderr), strict=True):
            self._pipes[descriptor] = capture

    def announce_reading(self, on: bool) -> None:
        self._announces, self._announced = on, False

    def watch_memory(self, on: bool) -> None:
        # A statement that is over before a first look was due costs the zygote nothing, and many in a row one timer.
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
        if self._runs_since is None:  # a statement that was over soon may have left something
            self._control.watch_memory(False)
            return
        loop = asyncio.get_running_loop()
        due = self._runs_since + LOOK_SECONDS
        if loop.time() < due:  # it was set for a statement that is over
            self._watch = loop.call_at(due, self._begin_watch)
        else:
            self._is_watched = True
            self._control.watch_memory(True)

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
        while self._control.unacknowledged and not self.dead:
            await self._progress()

    def end(self) -> None:
        """Has the worker ended with all its descendants."""
        if not self.dead:
            self._control.end()

    def close(self) -> None:
        """Gives all descriptors back. Closing the control channel has the zygote end a worker that still runs."""
        if self._closed:
            return
        self._closed = True
        self.watch_memory(False)
        if self._watch is not None:
            self._watch.cancel()
        self._epoll.close()
        self._control.close()
        self._worker.close()
        self._handover.close()
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = {}

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _progress(self) -> None:
        await anyio.wait_readable(self._epoll.fileno())
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
        for descriptor, events in self._epoll.poll(0):
            if descriptor in self._pipes:
                if self._may_read():
                    self._read_pipe(descriptor)
            elif descriptor == self._control.fileno():
                self._control.serve(events)
                self._death = self._death or self._control.death
            else:
                if events & select.EPOLLOUT:
                    self._outbox.flush()
                if events & ~select.EPOLLOUT:
                    self._read_worker()

    def _may_read(self) -> bool:
        """Whether the worker has been told that its output is read, if it is to be told.

        Before it has the whole request it runs nothing, so what it is to be told may wait until then.
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
                    self._epoll.unregister(descriptor)
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
            self._control.forked = True  # which the zygote may say later than the worker
            self._frames.feed(data)
        else:
            # The death follows: a worker that finds its socket gone ends itself.
            self._hung_up = True
            self._outbox.stop_reading()
