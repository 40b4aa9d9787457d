"""System calls that neither Python nor every C library offers, with their errors as OSError.

The numbers are valid on every architecture: system calls since Linux 5.1 have the same everywhere. Must not know what
the calls are for. Used by the layers.
"""

from __future__ import annotations

import ctypes
import os
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

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None


def system_call(number: int, *arguments: Argument) -> int:
    """Make the call; return its result. Integers are passed as 64 bits. Raises OSError."""
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(_LIBC.syscall(ctypes.c_long(number), *passed))


def prctl(option: int, *arguments: int) -> int:
    """`prctl`, with zeros for missing arguments. Raises OSError."""
    passed = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return checked(_LIBC.prctl(option, *passed))


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones. Raises OSError."""
    checked(_LIBC.unshare(flags))


def enter_namespace(descriptor: int, kind: int) -> None:
    """`setns`. Raises OSError."""
    checked(_LIBC.setns(descriptor, kind))


def mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    """Mount a new file system. Raises OSError."""
    checked(_LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()))


def get_capabilities(header: bytes, held: ctypes.Array[ctypes.c_char]) -> None:
    """`capget`. Raises OSError."""
    checked(_LIBC.capget(header, held))


def set_capabilities(header: bytes, wanted: bytes) -> None:
    """`capset`. Raises OSError."""
    checked(_LIBC.capset(header, wanted))


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
