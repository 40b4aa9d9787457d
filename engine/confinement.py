"""Which files may be opened, and how: pin first, ask the kernel where that is, then open what is pinned.

Owns the rule that nothing but regular files is read and directories are listed, that neither blocks, and that both lie
inside the given roots. Must not know sessions, tools or nodes. Called by the worker's `Files` and by every file tool.

Resolving a path and opening the result are two looks at the file system; a link that is swapped in between is followed
outside. So a path is looked up once, with O_PATH: that opens nothing (a pipe does not block, a device is not started)
and pins one inode. `/proc/self/fd` then tells where the kernel found it, links resolved, and that is compared. Opening
`/proc/self/fd/N` opens the pinned inode again, whatever its path leads to by now. Hard links have no other place that
could be found out: one inside the roots is inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Generator
from typing import BinaryIO, Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_STATFS_BYTES: Final = 256
"""More than `struct statfs` takes anywhere; its first field, a long, is the type of the file system."""
_PROCFS: Final = 0x9FA0
"""PROC_SUPER_MAGIC, statfs(2)."""
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def opened_file(path: str, roots: tuple[str, ...] | None = None) -> Generator[BinaryIO]:
    """The regular file at an absolute path, open for reading; never blocks on a pipe or a device.

    Args:
        path: absolute; links are followed.
        roots: absolute directories, links in them resolved at each use. None allows every place the process may read.

    Raises:
        PermissionError: it lies outside the roots, or on procfs, where a file speaks about the process that reads it.
        IsADirectoryError: it is a directory.
        OSError: it is no regular file, or the operating system's own reason.
        ValueError: the path holds a NUL character.
    """
    with _pinned(path, roots) as pin:
        mode = os.fstat(pin).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"{_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file", path)
        descriptor = _reopened(pin, os.O_RDONLY, path)
    with open(descriptor, "rb") as file:
        yield file


@contextlib.contextmanager
def opened_directory(path: str, roots: tuple[str, ...] | None = None) -> Generator[int]:
    """A descriptor of the directory at an absolute path, for `os.scandir`. Arguments and errors as `opened_file`.

    Raises:
        NotADirectoryError: it is something else.
    """
    with _pinned(path, roots) as pin:
        descriptor = _reopened(pin, os.O_RDONLY | os.O_DIRECTORY, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _pinned(path: str, roots: tuple[str, ...] | None) -> Generator[int]:
    if "\0" in path:
        raise ValueError("a path cannot hold a NUL character")
    try:
        pin = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # Whether something exists outside is not told either; nothing was opened, so resolving is safe here.
        if roots is not None:
            _check_inside(os.path.realpath(path), roots)
        raise
    try:
        if roots is not None:
            _check_inside(os.readlink(f"/proc/self/fd/{pin}"), roots)
            _check_file_system(pin, path)
        yield pin
    finally:
        os.close(pin)


def _check_inside(place: str, roots: tuple[str, ...]) -> None:
    for root in map(os.path.realpath, roots):
        if place == root or place.startswith(root.rstrip("/") + "/"):
            return
    raise PermissionError(errno.EACCES, f"outside the workspace {roots[0]}", place)


def _check_file_system(pin: int, path: str) -> None:
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(pin, found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    if ctypes.c_long.from_buffer(found).value == _PROCFS:
        raise PermissionError(errno.EACCES, "on procfs, which would show the agent's own process", path)


def _reopened(pin: int, flags: int, path: str) -> int:
    try:
        return os.open(f"/proc/self/fd/{pin}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
