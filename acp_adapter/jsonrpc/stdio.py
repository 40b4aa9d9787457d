"""The process's standard streams: the only module that touches the descriptors 0 and 1.

`divert` runs before anything else is imported, and takes the protocol's streams away from all other code: prints go to
stderr then, and a child that reads gets end of file. `StdioTransport` moves bytes over the descriptors that `divert`
returned: pipes, sockets, terminals or files. It never changes flags of these open files, because the client and other
processes share them. So it only reads when there is input, and only writes as much as there is room for.
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
    """Move the protocol's streams to new descriptors, and return these: (to read, to write).

    Afterwards descriptor 0 is the null device and 1 is stderr, for `sys.stdout` and every child process too. A stream
    that was closed at start-up becomes the null device.
    """
    null = os.open(os.devnull, os.O_RDWR)
    streams = _moved(0, null), _moved(1, null)
    try:
        os.fstat(_STDERR)
    except OSError:
        os.dup2(null, _STDERR)
    os.dup2(null, 0)
    os.dup2(_STDERR, 1)
    # because the null device may have got the number of a closed stream, and children would not inherit it
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
    """Moves bytes over two descriptors, and closes them. Make it inside a running asyncio loop.

    One task may receive and one may send at a time.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        import asyncio  # only here, because `divert` must not load anything heavy

        self._loop = asyncio.get_running_loop()
        self._source = _Descriptor(read_fd, select.POLLIN)
        self._sink = _Descriptor(write_fd, select.POLLOUT)

    async def receive(self) -> bytes:
        """Return available bytes, at most 64 KiB; b"" at the end of the stream. Raises OSError."""
        while (data := self._source.read_ready()) is None:
            await self._wait(self._loop.add_reader, self._loop.remove_reader, self._source.fd)
        return data

    async def send(self, data: bytes) -> None:
        """Write all data, waiting while there is no room. Raises OSError; BrokenPipeError if the reader is gone."""
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
    """One stream, read and written without blocking and without O_NONBLOCK.

    It is polled before the event loop waits for it: files and devices like /dev/null are always ready, and an event
    loop cannot wait for them.
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
        """Return available bytes, None if there are none yet."""
        try:
            return os.read(self.fd, _READ_SIZE) if self._is_ready() else None
        except BlockingIOError:
            return None

    def write(self, data: memoryview) -> int:
        """Write as much as there is room for; return the number of bytes."""
        if self._socket is not None:
            return self._send(self._socket, data)
        written = 0
        # because a ready pipe takes PIPE_BUF bytes without blocking, and one byte more may block forever
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
    """Reopen a terminal, to make only our open file non-blocking: a terminal is ready when it has room for one byte."""
    try:
        own = os.open(os.ttyname(fd), os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(own, fd, inheritable=False)
    os.close(own)


def _socket_of(fd: int) -> socket.socket:
    import socket  # only here, because `divert` must not load anything heavy

    return socket.socket(fileno=fd)
