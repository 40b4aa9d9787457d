"""The process's standard streams: the only module that touches the descriptors 0 and 1.

`divert` runs before anything else is imported and takes the protocol's streams away from everybody else: what prints
goes to stderr then, and a child that reads gets end of file. `StdioTransport` moves bytes over what `divert` returned,
be it a pipe, a socket, a terminal or a file, and leaves the flags of these descriptions alone, because the client and
other processes share them: a descriptor is only read when there is something, and only written as far as there is room.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

_STDERR: Final = 2
_LOWEST_FD: Final = 64
_READ_SIZE: Final = 65_536


def divert() -> tuple[int, int]:
    """Moves the protocol's streams to new descriptors, and returns these: (to read from, to write to).

    Afterwards 0 is the null device and 1 is stderr, also for `sys.stdout` and for every child process. A stream that
    was closed at start-up becomes the null device.
    """
    null = os.open(os.devnull, os.O_RDWR)
    streams = _moved(0, null), _moved(1, null)
    try:
        os.fstat(_STDERR)
    except OSError:
        os.dup2(null, _STDERR)
    os.dup2(null, 0)
    os.dup2(_STDERR, 1)
    # because the null device may have been opened under the number of a closed stream, and then no child would have it
    os.set_inheritable(0, True)
    os.set_inheritable(_STDERR, True)
    if null > _STDERR:
        os.close(null)
    sys.stdout = sys.stderr
    return streams


def _moved(fd: int, null: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    except OSError:
        return fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)


class StdioTransport:
    """Bytes over two descriptors, which it owns from now on. To be made inside of a running asyncio loop.

    One task may receive and one may send at a time.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        import asyncio  # only here, because `divert` must not load anything heavy

        self._loop = asyncio.get_running_loop()
        self._source = _Descriptor(read_fd, select.POLLIN)
        self._sink = _Descriptor(write_fd, select.POLLOUT)

    async def receive(self) -> bytes:
        """What there is, at most 64 KiB; b"" at the end of the stream. Raises OSError."""
        while (data := self._source.read_ready()) is None:
            await self._wait(self._loop.add_reader, self._loop.remove_reader, self._source.fd)
        return data

    async def send(self, data: bytes) -> None:
        """Writes everything, waiting while there is no room. Raises OSError, BrokenPipeError when nobody reads."""
        rest = memoryview(data)
        while rest:
            written = self._sink.write(rest)
            if written == 0:
                await self._wait(self._loop.add_writer, self._loop.remove_writer, self._sink.fd)
            rest = rest[written:]

    def close(self) -> None:
        self._source.close()
        self._sink.close()

    async def _wait(self, add: Callable[..., object], remove: Callable[[int], object], fd: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(fd, _set, ready)
        try:
            await ready
        finally:
            remove(fd)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class _Descriptor:
    """One stream, read and written without ever blocking and without O_NONBLOCK.

    It is asked before it is waited for: files and devices like /dev/null always say ready, and an event loop could not
    wait for them.
    """

    __slots__ = ("_poll", "_socket", "fd")

    def __init__(self, fd: int, use: int) -> None:
        self.fd = fd
        mode = os.fstat(fd).st_mode
        if stat.S_ISCHR(mode) and os.isatty(fd):
            _unshare_terminal(fd)
        self._socket = _socket_of(fd) if stat.S_ISSOCK(mode) else None
        self._poll = select.poll()
        self._poll.register(fd, use)

    def _is_ready(self) -> bool:
        return bool(self._poll.poll(0))

    def read_ready(self) -> bytes | None:
        """What there is, None if there is nothing yet."""
        try:
            return os.read(self.fd, _READ_SIZE) if self._is_ready() else None
        except BlockingIOError:
            return None

    def write(self, data: memoryview) -> int:
        """Writes as much as there is room for; returns the number of bytes."""
        if self._socket is not None:
            return self._send(self._socket, data)
        written = 0
        # because a pipe that is ready takes PIPE_BUF bytes without blocking, and one byte more may block for ever
        while written < len(data) and self._is_ready():
            try:
                written += os.write(self.fd, data[written : written + select.PIPE_BUF])
            except BlockingIOError:
                break
        return written

    def _send(self, sock: socket.socket, data: memoryview) -> int:
        import socket  # only here, because `divert` must not load anything heavy

        try:
            return sock.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self.fd)


def _unshare_terminal(fd: int) -> None:
    """Gives a terminal a description of its own, which may then be non-blocking: it says ready with room for a byte."""
    try:
        own = os.open(os.ttyname(fd), os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(own, fd, inheritable=False)
    os.close(own)


def _socket_of(fd: int) -> socket.socket:
    import socket  # only here, because `divert` must not load anything heavy

    return socket.socket(fileno=fd)
