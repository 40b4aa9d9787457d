"""The worker's end of its socket: whole frames in and out, blocking, and never used by a forked child.

Owns the socket. Must not know what the messages mean. Used by `main`, `effects` and `touching`; the host knows its exit
status.

A checkpoint has the worker's objects without its socket; a worker that is restored from it gets another (`reopen`).

Threads of a statement send, too, and so may a signal handler or a finalizer that runs while its own thread is sending.
Frames must not mix: a thread waits for the one that sends, and what comes from within a frame goes after it.

Several threads wait for the host at the same time: one for the answer to its question, others until the host has looked
at files that they are about to write. Whichever of them reads the socket puts each message where it belongs (`Inbox`).
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from .framing import FrameBuffer, frame, to_worker
from .processes import system
from .protocol import FromWorker, Noted, ToWorker

_CHUNK = 65536
EXIT_HOST_GONE = 0
EXIT_CHANNEL_LOST = 71
_TURN: Final = 0.02
"""Seconds for which a thread that waits for a `Noted` keeps others from reading."""
_PAUSE: Final = 0.0005
"""Seconds between tries while another thread reads the socket."""
_WAIT_MS: Final = 20

Bodies = Callable[[float | None], Iterable[bytes]]
"""Waits so many seconds, or for ever, and returns the messages that have come by then."""


class Inbox:
    """What has come from the host: each `Noted` for the thread that waits for it, and the rest for who receives."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._messages: deque[ToWorker] = deque()
        self._noted: set[int] = set()
        # One that a thread may take again, because a signal handler may raise between taking it and its release.
        self._lock = threading.RLock()
        self._reader = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there to receive. Reads what has come."""
        if not self._messages and self._lock.acquire(blocking=False):
            self._read(0)
        return not self._messages

    @property
    def has_messages(self) -> bool:
        """Whether `receive` returns at once."""
        return bool(self._messages)

    def receive(self) -> ToWorker:
        """The next message that is no `Noted`."""
        while not self._messages:
            self._lock.acquire()
            self._read(None)
        return self._messages.popleft()

    @property
    def is_reading(self) -> bool:
        """Whether the calling thread was interrupted while it reads, so that it must not read again."""
        return self._reader == threading.get_ident()

    def is_noted(self, number: int, seconds: float) -> bool:
        """Whether the host says `Noted` of that number in time. Not while the calling thread `is_reading`."""
        end = time.monotonic() + seconds
        while number not in self._noted:
            if time.monotonic() > end:
                return False
            if self._lock.acquire(blocking=False):
                self._read(_TURN)
            else:
                time.sleep(_PAUSE)
        self._noted.discard(number)
        return True

    def _read(self, seconds: float | None) -> None:
        """With the lock, which it releases. What another thread has put there meanwhile is not waited for."""
        try:
            self._reader = threading.get_ident()
            if seconds is not None or not self._messages:
                for body in self._bodies(seconds):
                    message = to_worker(body)
                    if isinstance(message, Noted):
                        self._noted.add(message.number)
                    else:
                        self._messages.append(message)
        finally:
            self._reader = 0
            self._lock.release()


class Channel:
    """Frames between this worker and its host. A process forked from the worker closes it at once."""

    def __init__(self, connection: socket.socket) -> None:
        self.reopen(connection)
        os.register_at_fork(after_in_child=self._close)

    def reopen(self, connection: socket.socket) -> None:
        """Begins anew on another socket: nothing of what was under way on the last one goes on."""
        self._connection = connection
        self._buffer = FrameBuffer()
        self.inbox = Inbox(self._bodies)
        self._lock = threading.RLock()
        self._unsent: deque[bytes] = deque()
        self._is_sending = False
        # Two, because a thread may wait for an answer while another reads, and neither may be used by both.
        self._poll, self._waiting = select.poll(), select.poll()
        for poll in (self._poll, self._waiting):
            poll.register(connection.fileno(), select.POLLIN)

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
        return self.inbox.is_empty and not self._buffer.begun

    def wait(self) -> None:
        """Returns when there is something to receive; an interrupt may end it without harm."""
        # In turns, because a thread that waits for a `Noted` may read the message meanwhile.
        while not self.inbox.has_messages and not self._waiting.poll(_WAIT_MS):
            pass

    def receive(self) -> ToWorker:
        """The next message. Ends the process when the host closed its end or the socket was closed under us."""
        return self.inbox.receive()

    def _bodies(self, seconds: float | None) -> Iterable[bytes]:
        if seconds is not None and not self._poll.poll(seconds * 1000):
            return
        try:
            data = self._connection.recv(_CHUNK)
        except OSError:
            os._exit(EXIT_CHANNEL_LOST)
        if not data:
            os._exit(EXIT_HOST_GONE)
        self._buffer.feed(data)
        while (body := self._buffer.next()) is not None:
            yield body
