"""What passes between the host and a thread that interprets statements: frames' bodies, and a bell to wake the host.

Messages pass as the same bytes as between processes, so that what is cleaned, refused or too large is so in both. Must
not know what the messages mean. Used by `thread_connection`.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from .worker.framing import FrameBuffer, frame, to_worker
from .worker.processes import own_process
from .worker.protocol import FromWorker, ToWorker

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
        self.to_thread: SimpleQueue[bytes | None] = SimpleQueue()
        self.to_host: deque[bytes] = deque()

    @property
    def ours(self) -> bool:
        return own_process.is_own()

    @property
    def idle(self) -> bool:
        return self.to_thread.empty()

    def send(self, message: FromWorker) -> None:
        self.to_host.append(body_of(message))
        self._bell.ring()

    def wait(self) -> None:
        """Returns at once and leaves the waiting to `receive`: an interrupt would not end it here either."""

    def receive(self) -> ToWorker:
        body = None if self._gone else self.to_thread.get()
        if body is None:
            self._gone = True
            raise HostGone
        return to_worker(body)


def body_of(message: ToWorker | FromWorker) -> bytes:
    """The message as it is between processes, without the length. Raises FrameTooLargeError."""
    buffer = FrameBuffer()
    buffer.feed(frame(message))
    body = buffer.next()
    assert body is not None
    return body
