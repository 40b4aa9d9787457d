"""The worker's end of its socket: sends and receives whole frames, blocking, and closed in every forked child.

Threads of a statement send too, and so may a signal handler or a finalizer that runs while its thread is sending.
Frames must not mix. So a thread waits for another one that sends, and a frame from within a frame follows it.

Several threads may wait for the host: one for the answer to its question, others until the host has read files that
they are about to write. The one that reads the socket puts each message where it belongs (`Inbox`). A handler of
signals reads too, for the reason of an interrupt.

A checkpoint has the worker's objects without its socket, and a worker that is restored from it gets another one
(`reopen`). Must not know what messages mean. Used by the interpreter, its effects, and `writes.touching`. The host
knows the exit status for a lost socket.
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

from ..system import own_process
from .framing import FrameBuffer, frame, to_worker
from .protocol import FromWorker, Noted, Stopping, ToWorker

_CHUNK = 65536
EXIT_HOST_GONE = 0
EXIT_CHANNEL_LOST = 71
_TURN: Final = 0.02
"""Seconds for which a thread that waits for `Noted` reads alone."""
_PAUSE: Final = 0.0005
"""Seconds between tries while another thread reads the socket."""
_WAIT_MS: Final = 20
_TRIES: Final = 40
_sleep: Final = time.sleep
"""Bound here, because a handler of signals needs it while a statement may have replaced the original."""

Bodies = Callable[[float | None], Iterable[bytes]]
"""Waits so many seconds, or without limit, and returns the messages that have arrived."""


class Inbox:
    """Messages of the host: `Noted` for the thread that waits, `Stopping` for `stopping`, others for `receive`."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._messages: deque[ToWorker] = deque()
        self._noted: set[int] = set()
        self._stopping: Stopping | None = None
        # Reentrant, because a signal handler may raise between acquiring and releasing it.
        self._lock = threading.RLock()
        self._reader = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to receive, after reading what has arrived."""
        if not self._messages and self._lock.acquire(blocking=False):
            self._read(0)
        return not self._messages

    @property
    def has_messages(self) -> bool:
        """Whether `receive` returns at once."""
        return bool(self._messages)

    def receive(self) -> ToWorker:
        """Return the next message that is no `Noted`."""
        while not self._messages:
            self._lock.acquire()
            self._read(None)
        return self._messages.popleft()

    @property
    def is_reading(self) -> bool:
        """Whether the calling thread was interrupted inside a read, so that it must not read again."""
        return self._reader == threading.get_ident()

    def is_noted(self, number: int, seconds: float) -> bool:
        """Whether `Noted` with that number arrives in time. Not while the calling thread `is_reading`."""
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

    def stopping(self) -> Stopping | None:
        """Take the reason of an interrupt that has come; None if there is none.

        The host sent it before the signal, so it was read, waits on the socket, or another thread is reading it.
        """
        for _ in range(_TRIES):
            if self._stopping is not None or self.is_reading:
                break
            if self._lock.acquire(blocking=False):
                self._read(0)
                break
            _sleep(_PAUSE)
        taken, self._stopping = self._stopping, None
        return taken

    def _read(self, seconds: float | None) -> None:
        """Read with the lock held, and release it. Does not wait if another thread has added a message meanwhile."""
        try:
            self._reader = threading.get_ident()
            if seconds is not None or not self._messages:
                for body in self._bodies(seconds):
                    message = to_worker(body)
                    if isinstance(message, Noted):
                        self._noted.add(message.number)
                    elif isinstance(message, Stopping):
                        self._stopping = message
                    else:
                        self._messages.append(message)
        finally:
            self._reader = 0
            self._lock.release()


class Channel:
    """Frames between this worker and its host. A forked process closes it at once."""

    def __init__(self, connection: socket.socket) -> None:
        self.reopen(connection)
        os.register_at_fork(after_in_child=self._close)

    def reopen(self, connection: socket.socket) -> None:
        """Start again on another socket; pending messages of the last one are dropped."""
        self._connection = connection
        self._buffer = FrameBuffer()
        self.inbox = Inbox(self._bodies)
        self._lock = threading.RLock()
        self._unsent: deque[bytes] = deque()
        self._is_sending = False
        # Two, because one thread may wait while another one reads, and a poll object is for one thread.
        self._poll, self._waiting = select.poll(), select.poll()
        for poll in (self._poll, self._waiting):
            poll.register(connection.fileno(), select.POLLIN)

    def _close(self) -> None:
        self._connection.close()

    @property
    def ours(self) -> bool:
        """Whether this is the worker itself and not a forked process."""
        return own_process.is_own()

    def send(self, message: FromWorker) -> None:
        """Send a message. Raises FrameTooLargeError with nothing sent. A lost socket ends the process."""
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
            # A statement's signal handler may raise a TimeoutError here, before or after sending everything.
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            os._exit(EXIT_CHANNEL_LOST)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to receive."""
        return self.inbox.is_empty and not self._buffer.begun

    def stopping(self) -> Stopping | None:
        """See `Inbox.stopping`. None in a forked process, which has no socket."""
        return self.inbox.stopping() if self.ours else None

    def wait(self) -> None:
        """Wait until there is something to receive. An interrupt may end that safely."""
        # In short turns, because a thread that waits for `Noted` may read the message meanwhile.
        while not self.inbox.has_messages and not self._waiting.poll(_WAIT_MS):
            pass

    def receive(self) -> ToWorker:
        """Return the next message. Ends the process if the host or a statement closed the socket."""
        return self.inbox.receive()

    def take(self) -> ToWorker | None:
        """Return the next message, after `wait`; None if only others arrived than those for `receive`."""
        return None if self.idle else self.receive()

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
