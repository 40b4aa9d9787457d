"""Pins: descriptors that hold a file or directory without opening it, where it is now, and how to open it later.

On Linux a pin is made with O_PATH: a pipe does not block, a device is not started, no right is needed. `/proc/self/fd`
tells where the kernel finds the file, links resolved, and a path below it leads to this very file, whatever is at its
place by now. Elsewhere (macOS) it is made with O_EVTONLY and the kernel tells its place; a file is opened again at
that place, without following links, and compared with the pin.

The one module below `engine.runtime.system` that asks for the system, because the layers below it open files. Must not
know which places are allowed (`safe_open`). `PIN` are the flags for `os.open`.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

# Bound here, because a statement may replace these functions in their modules, and its code would run here.
_open, _close, _fstat, _readlink, _dup = os.open, os.close, os.fstat, os.readlink, os.dup

if sys.platform == "linux":
    import ctypes

    _LIBC: Final = ctypes.CDLL(None, use_errno=True)
    _STATFS_BYTES: Final = 256
    """More than `struct statfs` needs; its first field, a long, is the type of the file system."""
    _PROCFS: Final = 0x9FA0
    """PROC_SUPER_MAGIC, statfs(2)."""
    PIN: Final = os.O_PATH

    def path_of(descriptor: int) -> str:
        """The real path of an open or pinned file. Raises OSError."""
        return _readlink(f"/proc/self/fd/{descriptor}")

    def opened_again(descriptor: int, flags: int) -> int:
        """Open a file that is pinned or open, with its own position and flags. Raises OSError."""
        return _open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)

    def pinned_again(descriptor: int) -> int:
        """Another pin of an open file. Raises OSError."""
        return _open(f"/proc/self/fd/{descriptor}", PIN | os.O_CLOEXEC)

    def may(descriptor: int, mode: int) -> bool:
        """Return whether this process may use the file in a mode of `os.access`."""
        return os.access(f"/proc/self/fd/{descriptor}", mode, effective_ids=True)

    def set_mode(descriptor: int, mode: int) -> None:
        """Set the permissions of a pinned file or directory. Raises OSError."""
        os.chmod(f"/proc/self/fd/{descriptor}", mode)

    def set_times(descriptor: int, times: tuple[int, int] | None) -> None:
        """Set when a pinned file was read and changed, in nanoseconds; None for now. Raises OSError."""
        os.utime(f"/proc/self/fd/{descriptor}", ns=times) if times else os.utime(f"/proc/self/fd/{descriptor}")

    def is_nameless(flags: int) -> bool:
        """Return whether `os.open` makes a file without a name with these flags."""
        return flags & os.O_TMPFILE == os.O_TMPFILE

    def is_on_procfs(descriptor: int) -> bool:
        """Return whether a file describes the process that reads it.

        Raises OSError if the file system does not answer.
        """
        found = ctypes.create_string_buffer(_STATFS_BYTES)
        if _LIBC.fstatfs(descriptor, found) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return ctypes.c_long.from_buffer(found).value == _PROCFS

else:
    import fcntl

    PIN: Final = os.O_EVTONLY | os.O_NONBLOCK
    _LONGEST: Final = 1024
    """MAXPATHLEN, which F_GETPATH needs."""
    _MOVED: Final = "another file has replaced this one"

    def path_of(descriptor: int) -> str:
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_LONGEST))
        return os.fsdecode(found.rstrip(b"\0"))

    def opened_again(descriptor: int, flags: int) -> int:
        # Emptied only after the comparison, because it may be another file.
        place, given = path_of(descriptor), flags & ~os.O_TRUNC
        opened = _open(place, given | os.O_CLOEXEC | os.O_NOFOLLOW_ANY)
        try:
            if not os.path.samestat(_fstat(opened), _fstat(descriptor)):
                raise OSError(errno.ESTALE, _MOVED, place)
            if flags & os.O_TRUNC:
                os.ftruncate(opened, 0)
        except BaseException:
            _close(opened)
            raise
        return opened

    def pinned_again(descriptor: int) -> int:
        return _dup(descriptor)

    def may(descriptor: int, mode: int) -> bool:
        return os.access(path_of(descriptor), mode, effective_ids=True)

    def set_mode(descriptor: int, mode: int) -> None:
        os.fchmod(descriptor, mode)

    def set_times(descriptor: int, times: tuple[int, int] | None) -> None:
        os.utime(descriptor, ns=times) if times else os.utime(descriptor)

    def is_nameless(flags: int) -> bool:
        return False

    def is_on_procfs(descriptor: int) -> bool:
        return False
