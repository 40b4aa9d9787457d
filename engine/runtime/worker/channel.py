"""The worker's end of its socket: whole frames in and out, blocking, and never used by a forked child.

Owns the socket. Must not know what the messages mean. Used by `main`, `effects` and `touching`; the host knows its exit
status.

A checkpoint has the worker's objects without its socket; a worker that is restored from it gets another (`reopen`).

Threads of a statement send, too, and so may a signal handler or a finalizer that runs while its own thread is sending.
Frames must not mix: a thread waits for the one that sends, and what comes from within a frame goes after it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque

from .framing import FrameBuffer, frame, to_worker
from .processes import system
from .protocol import FromWorker, ToWorker

_CHUNK = 65536
EXIT_HOST_GONE = 0
EXIT_CHANNEL_LOST = 71


class Channel:
    """Frames between this worker and its host. A process forked from the worker closes it at once."""

    def __init__(self, connection: socket.socket) -> None:
        self.reopen(connection)
        os.register_at_fork(after_in_child=self._close)

    def reopen(self, connection: socket.socket) -> None:
        """Begins anew on another socket: nothing of what was under way on the last one goes on."""
        self._connection = connection
        self._buffer = FrameBuffer()
        self._lock = threading.RLock()
        self._unsent: deque[bytes] = deque()
        self._is_sending = False
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def _close(self) -> None:
        self._connection.close()

    @property
    def ours(self) -> bool:
        """Whether this is the worker itself and not something it forked."""
        return system.is_own()

    def send(self, message: FromWorker) -> None:
        """Raises FrameTooLargeError with nothing sent. A lost socket ends the process: the host is gone."""
        data = frame(message)
        with self._lock:
            self._unsent.append(data)
            if self._is_sending:
                return
            self._is_sending = True
            try:
                while self._unsent:
                    self._send_all(self._unsent.popleft())
            finally:
                self._is_sending = False

    def _send_all(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError as error:
            # A statement's signal handler may raise a TimeoutError here, when all was sent or nothing.
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            os._exit(EXIT_CHANNEL_LOST)

    @property
    def idle(self) -> bool:
        """Whether nothing has come that was not received."""
        return not self._buffer.begun and not self._poll.poll(0)

    def wait(self) -> None:
        """Returns when there is something to receive; an interrupt may end it without harm."""
        if not self._buffer.complete:
            self._poll.poll()

    def receive(self) -> ToWorker:
        """The next message. Ends the process when the host closed its end or the socket was closed under us."""
        while (body := self._buffer.next()) is None:
            try:
                data = self._connection.recv(_CHUNK)
            except OSError:
                os._exit(EXIT_CHANNEL_LOST)
            if not data:
                os._exit(EXIT_HOST_GONE)
            self._buffer.feed(data)
        return to_worker(body)
