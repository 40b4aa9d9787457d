"""A process's descriptors: files in memory, senders of records, and numbers that statements do not use.

Must not know what the descriptors are for. Used by the host, the zygote, workers and keepers.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import sys
from contextlib import suppress
from struct import Struct
from typing import Final

_STREAMS: Final = 3
_PIECE: Final = 1 << 20
_RESERVED: Final = 8
"""Descriptors below the limit that are ours, for example the socket to the host."""


# --- numbers ----------------------------------------------------------------------------------------------------------


def is_high(descriptor: int) -> bool:
    """Whether the descriptor is one of ours."""
    return descriptor >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED


def keep_high(descriptor: int) -> int:
    """Move it to the top of the limit, where statements see no gap in their numbers and do not close it by chance."""
    floor = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, floor)
    except OSError:
        # All of those are in use.
        return descriptor
    os.close(descriptor)
    return moved


def close_others(kept: int) -> None:
    """In a forked process, put /dev/null on the standard streams and close all others apart from `kept`."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def close_all_but(*kept: int) -> None:
    """Close all descriptors except these, because the zygote has channels of other processes.

    Standard streams become /dev/null instead. Those of the zygote are the agent's, and a program of a statement could
    take them from a process that it may trace (`pidfd_getfd`).
    """
    null = os.open(os.devnull, os.O_RDWR)
    for standard in {*range(_STREAMS)}.difference(kept):
        os.dup2(null, standard)
    highest = max(open_descriptors(), default=0)
    others = sorted({*kept}.difference(range(_STREAMS)))
    for low, high in zip((_STREAMS - 1, *others), (*others, highest + 2), strict=True):
        os.closerange(low + 1, high)


def open_descriptors() -> list[int]:
    """The descriptors of this process, and perhaps one that was open during the call. Raises OSError."""
    return list(map(int, os.listdir(_OWN)))


# --- what systems make differently ------------------------------------------------------------------------------------

if sys.platform == "linux":
    _OWN: Final = "/proc/self/fd"
    _MEMORY: Final = "/memfd:"
    _CREDENTIALS: Final = Struct("=iII")
    """The sender of a record: process, user and group."""

    def memory_file(name: str, *, again: bool = False) -> int:
        """Open an empty file that is on no disk and that no path leads to. Close it with `close_memory_file`.

        Args:
            name: for people.
            again: `pins.opened_again` must be able to open it.

        Raises:
            OSError: there is no descriptor or memory.
        """
        return os.memfd_create(name, os.MFD_CLOEXEC)

    def close_memory_file(descriptor: int) -> None:
        """Close a file in memory, by its first descriptor or a copy of that. Raises OSError."""
        os.close(descriptor)

    def is_memory_file(path: str) -> bool:
        """Whether it is the path by which `memory_file` or `pins.opened_again` opens a file in memory of this process.

        Such files are our work, and no file of a statement.
        """
        if not path.startswith(_OWN):
            return False
        try:
            return os.readlink(path).startswith(_MEMORY)
        except OSError:
            return False

    def new_flag() -> int:
        """A descriptor that is readable once this process, or one forked from it, calls `set_flag`. Raises OSError."""
        return os.eventfd(0)

    def set_flag(flag: int) -> None:
        os.eventfd_write(flag, 1)

    def copy_rest(source: int, target: int) -> None:
        """Copy a file from its position to its end to another. Raises OSError."""
        while os.sendfile(target, source, None, _PIECE):
            pass

    def widen(pipe: int, size: int) -> None:
        """Let a pipe take so many bytes, if the system has the choice. Raises OSError if the user may not."""
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)

    def name_senders(connection: socket.socket) -> None:
        """Let the kernel name the sender of each record that this socket receives from now on."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def receive_named(connection: socket.socket, flags: int = 0) -> tuple[bytes, int]:
        """Receive a byte, and the process that sent it according to the kernel; 0 if unknown. Raises OSError."""
        data, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size), flags)
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                return data, int(_CREDENTIALS.unpack(value[: _CREDENTIALS.size])[0])
        return data, 0

else:
    _OWN: Final = "/dev/fd"
    from ...files.pins import path_of

    # Bound here, because the functions of this name that statements see ask the user.
    _open, _unlink = os.open, os.unlink
    _MEMORY: Final[set[str]] = set()
    """The real paths of the files that this process has made and not closed."""

    def memory_file(name: str, *, again: bool = False) -> int:
        """Open an empty file in the temporary directory. Without `again`, no path leads to it."""
        folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 -- opened exclusively, and for this user alone
        path = os.path.join(os.path.realpath(folder), f".{name}-{os.urandom(8).hex()}")
        _MEMORY.add(path)
        try:
            descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            if not again:
                _remove(path)
        except BaseException:
            _MEMORY.discard(path)
            raise
        return descriptor

    def close_memory_file(descriptor: int) -> None:
        """Close the file, and remove its name."""
        with suppress(FileNotFoundError):
            _remove(path_of(descriptor))
        os.close(descriptor)

    def _remove(path: str) -> None:
        try:
            _unlink(path)
        finally:
            _MEMORY.discard(path)

    def is_memory_file(path: str) -> bool:
        return path in _MEMORY

    def new_flag() -> int:
        """Raise OSError: there are no copies of workers, which need a flag, where processes adopt no orphans."""
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def set_flag(flag: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def copy_rest(source: int, target: int) -> None:
        while piece := os.read(source, _PIECE):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(target, rest) :]

    def widen(pipe: int, size: int) -> None:
        """Do nothing: pipes grow when they are used."""

    def name_senders(connection: socket.socket) -> None:
        """Do nothing: the kernel names only the process that made the socket."""

    def receive_named(connection: socket.socket, flags: int = 0) -> tuple[bytes, int]:
        return connection.recv(1, flags), 0
