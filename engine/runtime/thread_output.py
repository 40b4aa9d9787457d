"""The output of statements that run in threads of the host's process: which stream a thread writes to, and the pipe.

`sys.stdout` and `sys.stderr` are one pair for the whole process. While any statement runs they are a pair that looks up
the writing thread; a thread that runs no statement finds the host's own behind it. What children and C code write goes
to the process's descriptors and is not seen here; what threads write that a statement started goes to the host's
streams. Must not know what a statement is. Used by `thread_connection`.
"""

from __future__ import annotations

import io
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, TextIO, cast

from .worker.interrupts import Interrupts

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
