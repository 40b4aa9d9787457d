"""A fork whose end nobody hears of who does not ask for this child: no SIGCHLD, and `os.wait()` does not see it.

A statement may have a handler for SIGCHLD, which would run, and raise, in the middle of the worker's own work; and one
that waits for its own children would be told of ours. The kernel knows children that end without a signal, and a plain
wait leaves them out; `fork` of the C library cannot make one. So the system call is made directly, between the two
halves of what Python does around it. What is lost is what the C library does: it takes care of its locks, one of which
another thread may hold at that moment, and then the child hangs at its first allocation. So this is for a process with
one thread; with more of them (numpy brings some), or where the number of the call is not known, `os.fork` has to do.

The kernel also makes a child of the parent's, beside this process, which no call of the C library does either. That one
is to live long and run anything, so it is told its thread's id, which the C library keeps and has from its own fork.

Used by `copies` and `forking_off`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_THREAD_ID_AT: Final = {"x86_64": 3, "aarch64": 4}.get(platform.machine(), 0)
"""Which argument of the call is the address of the id of the new process's thread."""
_CLONE_PIDFD: Final = 0x1000
_CLONE_PARENT: Final = 0x8000
_CLONE_CHILD_CLEARTID: Final = 0x200000
_CLONE_CHILD_SETTID: Final = 0x1000000
_PR_GET_TID_ADDRESS: Final = 40
_THREADS: Final = "/proc/self/task"
_WAIT_FOR_ALL: Final = 0x40000000
"""Of waitpid: children without a signal, too."""
# Of PyDLL, because these are to be called with the interpreter's lock.
_C: Final = ctypes.PyDLL(None, use_errno=True)
_C.syscall.restype = ctypes.c_long
# Looked up now, because in a child each first time copies pages of memory.
_BEFORE, _IN_PARENT, _IN_CHILD = _C.PyOS_BeforeFork, _C.PyOS_AfterFork_Parent, _C.PyOS_AfterFork_Child


def is_quiet() -> bool:
    """Whether nobody would hear of a child that `fork` made now."""
    return _CLONE is not None and len(os.listdir(_THREADS)) == 1


def fork() -> int:
    """As `os.fork`. Raises OSError."""
    if _CLONE is None or not is_quiet():
        with warnings.catch_warnings():
            # Python 3.12 and later print that this may deadlock, which a statement would show as its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            return os.fork()
    _BEFORE()
    pid = _call((0, 0, 0, 0, 0))
    (_IN_PARENT if pid else _IN_CHILD)()
    _check(pid)
    return pid


def can_be_beside() -> bool:
    """Whether `fork_beside` can be called: with one thread, where the kernel says where that one's id is kept."""
    return is_quiet() and _thread_id() is not None


def fork_beside(first: Callable[[], None], *, amid: bool = False) -> int | None:
    """Forks a child of the parent's. None in it, in this process a descriptor that pins it.

    `first` is called in the child, ahead of what Python and a statement's modules do there after a fork: the import
    lock is held, and locks of modules may be. It must not raise, import, or start a thread. It may fork again, `amid`
    this fork: for Python the two are one fork, whose child is whoever returns.

    Raises:
        OSError: there is none.
    """
    pinned = ctypes.c_int()
    flags = _CLONE_PARENT | _CLONE_PIDFD | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    arguments = [flags, 0, ctypes.addressof(pinned), 0, 0]
    arguments[_THREAD_ID_AT] = _thread_id() or 0
    if not amid:
        _BEFORE()
    pid = _call(arguments)
    if pid == 0:
        first()
    if not amid:
        (_IN_PARENT if pid else _IN_CHILD)()
    _check(pid)
    return pinned.value if pid else None


def _call(arguments: Sequence[int]) -> int:
    """The system call: 0 in the child, in this process the child's id, or less than 0 by the number of the error."""
    pid = _C.syscall(ctypes.c_long(_CLONE or 0), *map(ctypes.c_long, arguments))
    return pid if pid >= 0 else -ctypes.get_errno()


def _check(pid: int) -> None:
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))


def _thread_id() -> int | None:
    """The address at which the C library keeps the id of this thread; None where the kernel does not say."""
    address = ctypes.c_void_p()
    is_said = _C.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) == 0
    return address.value if is_said else None


def wait(pid: int) -> int:
    """Waits for the end of a child; its status, as from `os.waitpid`."""
    return os.waitpid(pid, _WAIT_FOR_ALL)[1]


def reap(pid: int) -> None:
    """Takes the exit status of a child that has ended, if nobody else did."""
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG | _WAIT_FOR_ALL)
