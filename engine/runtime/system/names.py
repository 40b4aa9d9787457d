"""Names in directories: renaming one only if there is no other, and when a file was made.

Must not know what the files are. Used by the tools that write, and by comparisons of directories.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from typing import Final

_NOT_SUPPORTED: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def _rename_without_replacing(
    call: Callable[..., int] | None, flag: int, directory: int, source: str, target: str
) -> bool:
    if call is None or call(directory, os.fsencode(source), directory, os.fsencode(target), flag) == 0:
        return call is not None
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


if sys.platform == "linux":
    import struct

    _LIBC: Final = ctypes.CDLL(None, use_errno=True)
    _RENAMEAT2: Final[Callable[..., int] | None] = getattr(_LIBC, "renameat2", None)
    _STATX: Final[Callable[..., int] | None] = getattr(_LIBC, "statx", None)
    """None if the C library is too old."""
    _RENAME_NOREPLACE: Final = 1
    _AT_FDCWD: Final = -100
    _NO_FOLLOW: Final = 0x100
    _BIRTH: Final = 0x800
    _BUFFER_BYTES: Final = 256
    _BIRTH_AT: Final = 80

    def rename_to_nothing(directory: int, source: str, target: str) -> bool:
        """Rename a file in a directory, unless the target exists; return False if that is not supported.

        Raises OSError, FileExistsError if the target exists.
        """
        return _rename_without_replacing(_RENAMEAT2, _RENAME_NOREPLACE, directory, source, target)

    def birth_of(path: str) -> int:
        """When an entry was made, in nanoseconds since the epoch; 0 if unknown. Follows no link."""
        if _STATX is None:
            return 0
        buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
        if _STATX(_AT_FDCWD, os.fsencode(path), _NO_FOLLOW, _BIRTH, buffer) != 0:
            return 0
        (mask,) = struct.unpack_from("I", buffer, 0)
        seconds, nanoseconds = struct.unpack_from("qI", buffer, _BIRTH_AT)
        return seconds * 10**9 + nanoseconds if mask & _BIRTH else 0

else:
    _RENAMEATX: Final[Callable[..., int] | None] = getattr(ctypes.CDLL(None, use_errno=True), "renameatx_np", None)
    _RENAME_EXCL: Final = 4

    def rename_to_nothing(directory: int, source: str, target: str) -> bool:
        return _rename_without_replacing(_RENAMEATX, _RENAME_EXCL, directory, source, target)

    def birth_of(path: str) -> int:
        """To the microsecond, because that is how Python tells it."""
        try:
            return round(getattr(os.lstat(path), "st_birthtime", 0) * 10**6) * 1000
        except OSError:
            return 0
