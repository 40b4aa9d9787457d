"""Extended attributes of open files. Must not know which ones matter. Used by the tools that replace files."""

from __future__ import annotations

import os
import sys

if sys.platform == "linux":

    def names_of(descriptor: int) -> list[str]:
        """The names of a file's attributes. Raises OSError, for instance if its file system has none."""
        return os.listxattr(descriptor)

    def copy(name: str, source: int, target: int) -> None:
        """Give another file an attribute of this one. Raises OSError."""
        os.setxattr(target, name, os.getxattr(source, name))

else:
    import ctypes
    from collections.abc import Callable
    from typing import Any, Final

    _LIBC: Final = ctypes.CDLL(None, use_errno=True)
    for _each in ("flistxattr", "fgetxattr", "fsetxattr"):
        getattr(_LIBC, _each).restype = ctypes.c_ssize_t

    def names_of(descriptor: int) -> list[str]:
        found = _filled(lambda room, size: _LIBC.flistxattr(descriptor, room, ctypes.c_size_t(size), 0))
        return [os.fsdecode(name) for name in found.split(b"\0") if name]

    def copy(name: str, source: int, target: int) -> None:
        held = os.fsencode(name)
        value = _filled(lambda room, size: _LIBC.fgetxattr(source, held, room, ctypes.c_size_t(size), 0, 0))
        _checked(_LIBC.fsetxattr(target, held, value, ctypes.c_size_t(len(value)), 0, 0))

    def _filled(call: Callable[[Any, int], int]) -> bytes:
        """What the call writes into a buffer. It tells the size without one."""
        size = _checked(call(None, 0))
        room = ctypes.create_string_buffer(size or 1)
        given = _checked(call(room, size)) if size else 0
        return room.raw[:given]

    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
