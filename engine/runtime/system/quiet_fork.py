"""Forks of a worker that its statements do not notice, because they send no SIGCHLD.

A statement may have a handler for SIGCHLD, which would run, and raise, in the middle of the worker's own work. And a
statement that waits for its own children would receive ours. The kernel has children that end without a signal, and a
plain wait skips them, but the C library's `fork` cannot make one. So `fork` makes the system call itself, between the
two halves of what Python does around it. The C library then does not take care of its locks. If another thread holds
one at that moment, the child hangs at its first allocation. So this is for a process with one thread. With more of them
(numpy starts some), or if the number of the system call is unknown, as on other systems, `os.fork` is used.

`fork_beside` makes a child of the parent's, next to this process, which the C library cannot do either. That child
lives long and may run anything, so it gets its thread's id in the place where the C library expects it after a fork.

Must not know what the children do. Used by `keeping.writing` and `forking.checkpoint`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from .process_table import threads_of
from .processes import ProcessHandle

_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
_THREAD_ID_AT: Final = {"x86_64": 3, "aarch64": 4}.get(platform.machine(), 0)
"""Index of the argument that is the address of the child's thread id."""
_CLONE_PIDFD: Final = 0x1000
_CLONE_PARENT: Final = 0x8000
_CLONE_CHILD_CLEARTID: Final = 0x200000
_CLONE_CHILD_SETTID: Final = 0x1000000
_PR_GET_TID_ADDRESS: Final = 40
_WAIT_FOR_ALL: Final = 0x40000000 if sys.platform == "linux" else 0
"""Flag of waitpid that includes children without a signal."""
# PyDLL, because these functions must be called with the interpreter's lock.
_C: Final = ctypes.PyDLL(None, use_errno=True)
_C.syscall.restype = ctypes.c_long
# Looked up now, because in a child each first time copies pages of memory.
_BEFORE, _IN_PARENT, _IN_CHILD = _C.PyOS_BeforeFork, _C.PyOS_AfterFork_Parent, _C.PyOS_AfterFork_Child


def is_quiet() -> bool:
    """Whether `fork` would now make a child that ends without a signal."""
    return _CLONE is not None and threads_of(os.getpid()) == 1


def fork() -> int:
    """Like `os.fork`. Raises OSError."""
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
    """Whether `fork_beside` is possible: with one thread, if the kernel reports the address of its id."""
    return is_quiet() and _thread_id() is not None


def _call(arguments: Sequence[int]) -> int:
    """Make the system call; return 0 in the child, the child's id in this process, or a negative error number."""
    pid = _C.syscall(ctypes.c_long(_CLONE or 0), *map(ctypes.c_long, arguments))
    return pid if pid >= 0 else -ctypes.get_errno()


def _check(pid: int) -> None:
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))


def _thread_id() -> int | None:
    """The address of this thread's id in the C library; None if the kernel does not tell it."""
    address = ctypes.c_void_p()
    is_said = _C.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0) == 0
    return address.value if is_said else None


def wait(pid: int) -> int:
    """Wait for the end of a child; return its status, as from `os.waitpid`."""
    return os.waitpid(pid, _WAIT_FOR_ALL)[1]


def reap(pid: int) -> None:
    """Take the exit status of a child that has ended, unless a statement took it."""
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG | _WAIT_FOR_ALL)


if sys.platform == "linux":

    def fork_beside(first: Callable[[], None], *, amid: bool = False) -> ProcessHandle | None:
        """Fork a child of the parent. Returns None in it, and a handle of it in this process.

        `first` is called in the child, before the steps of Python and of a statement's modules after a fork: the import
        lock is held, and locks of modules may be. It must not raise, import, or start a thread. It may fork again,
        `amid` this fork: for Python the two are one fork, whose child is the process that returns.

        Raises:
            OSError: there is no child.
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
        return ProcessHandle.of(pinned.value) if pid else None

else:

    def fork_beside(first: Callable[[], None], *, amid: bool = False) -> ProcessHandle | None:
        """Raise OSError: a process has no children but its own."""
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
