"""System calls of Linux that neither Python nor every C library offers, with their errors as OSError.

The numbers are valid on every architecture: system calls since Linux 5.1 have the same everywhere. On another system,
where a number may be another call, each one fails and nothing is called. Must not know what the calls are for. Used by
the layers of the sandbox, and by `own_process`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from typing import Final

LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_ADD_RULE: Final = 445
LANDLOCK_RESTRICT_SELF: Final = 446
OPEN_TREE: Final = 428
MOVE_MOUNT: Final = 429
MOUNT_SETATTR: Final = 442

PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38


def _library() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    found = ctypes.CDLL(None, use_errno=True)
    found.syscall.restype = ctypes.c_long
    return found


_LIBC: Final = _library()
AVAILABLE: Final = _LIBC is not None
"""Whether this is Linux."""
HAS_SEATBELT: Final = sys.platform == "darwin"
"""Whether this is macOS, whose kernel has Seatbelt instead of these calls."""

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None


def system_call(number: int, *arguments: Argument) -> int:
    """Make the call; return its result. Integers are passed as 64 bits. Raises OSError."""
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _made("syscall", ctypes.c_long(number), *passed)


def version() -> tuple[int, ...]:
    """Return the first two numbers of the kernel's version."""
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])


def prctl(option: int, *arguments: int) -> int:
    """`prctl`, with zeros for missing arguments. Raises OSError."""
    passed = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _made("prctl", option, *passed)


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones. Raises OSError."""
    _made("unshare", flags)


def enter_namespace(descriptor: int, kind: int) -> None:
    """`setns`. Raises OSError."""
    _made("setns", descriptor, kind)


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    """Mount a new file system. Raises OSError."""
    _made("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())


def get_capabilities(header: bytes, held: ctypes.Array[ctypes.c_char]) -> None:
    """`capget`. Raises OSError."""
    _made("capget", header, held)


def set_capabilities(header: bytes, wanted: bytes) -> None:
    """`capset`. Raises OSError."""
    _made("capset", header, wanted)


def _made(name: str, *arguments: object) -> int:
    if _LIBC is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result: int = getattr(_LIBC, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
