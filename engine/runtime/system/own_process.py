"""What a process sets or asks about itself: identity, privileges, signals, and C memory.

`is_own` tells whether this process is the worker. A forked copy of a worker has all of its objects, and most of them
must do nothing there. They ask here instead of storing a process id, because a restored worker is a forked copy that
continues as the worker.

A system without a function named here does without: nothing happens, or an OSError says so. Must not know what a worker
does. Used by the zygote, workers, keepers, and the host's `hardening`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Final

from . import kernel
from .brands import Brand

_pid = os.getpid()
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_MASK_BYTES: Final = 128
"""The size of a signal set in C libraries for Linux."""


def is_own() -> bool:
    """Whether this is the worker itself, not a process that it forked."""
    return os.getpid() == _pid


def take_place() -> None:
    """Make this process the worker, for all objects that were copied into it."""
    global _pid  # noqa: PLW0603 -- because it describes the process
    _pid = os.getpid()


# --- privileges -------------------------------------------------------------------------------------------------------


def become_unreadable() -> None:
    """Prevent other processes from reading or tracing this one, except with CAP_SYS_PTRACE.

    A fork inherits it; a started program is readable again.
    """
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


# --- signals, parents and memory --------------------------------------------------------------------------------------


def block_signals() -> ctypes.Array[ctypes.c_char]:
    """Block all signals in this thread; return the earlier mask for `set_blocked`.

    Uses the C library, because Python makes an enumeration member for each signal, in a third of a millisecond.
    """
    every, before = ctypes.create_string_buffer(_MASK_BYTES), ctypes.create_string_buffer(_MASK_BYTES)
    _LIBC.sigfillset(every)
    _LIBC.pthread_sigmask(signal.SIG_BLOCK, every, before)
    return before


def set_blocked(signals: ctypes.Array[ctypes.c_char]) -> None:
    """Set the blocked signals of this thread."""
    _LIBC.pthread_sigmask(signal.SIG_SETMASK, signals, None)


def flush_c_streams() -> None:
    """Flush output of C code, because libc buffers fully if stdout is a pipe."""
    _LIBC.fflush(None)


def give_back_memory() -> None:
    """Return free memory of C's allocator to the system; without effect unless the C library is glibc."""
    if trim := getattr(_LIBC, "malloc_trim", None):
        trim(0)


def send(pid: int, number: signal.Signals) -> None:
    """Send the signal; ignore a process that is gone or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


# --- what systems have differently ------------------------------------------------------------------------------------

if sys.platform == "linux":
    ADOPTS_ORPHANS: Final = True
    """Whether a process can be the subreaper of its descendants."""
    FORKS_MAY_DO_ANYTHING: Final = True
    """Whether a forked process may use every library, before it starts another program.

    Python's documentation calls forks unsafe on macOS. The system's frameworks may crash in a forked process, such as
    the one that `urllib.request` asks for proxies, or wait for threads that a fork does not copy.
    """
    _FIRST: Final = -20
    """The highest priority that is not real-time."""
    _PR_SET_PDEATHSIG: Final = 1
    _PR_SET_CHILD_SUBREAPER: Final = 36
    _PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
    _ANY_THREAD: Final = 0x40000000
    """__WALL of waitid(2): threads too."""
    _LIBC.ptrace.restype = ctypes.c_long

    def die_with_parent(number: signal.Signals, parent: int) -> bool:
        """Let the end of the thread that forked this process send it `number`; False if `parent` is gone already."""
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        return os.getppid() == parent

    def become_subreaper(on: bool = True) -> None:
        """Make orphaned descendants children of this process, or stop that."""
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)

    def take_precedence() -> None:
        """Give this process, but not its children, a higher priority; without effect if that is not permitted.

        A process that must end a fork bomb needs a processor among hundreds of competitors. Some kernels schedule
        sessions (sched(7), autogroup), others processes, so both priorities are set.
        """
        if os.getpriority(os.PRIO_PROCESS, 0) != 0 or os.sched_getscheduler(0) != os.SCHED_OTHER:
            return  # because the user has chosen a priority, which children inherit; a real-time one is higher anyway
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as number:
            number.write(str(_FIRST))

    def take_brand(brand: Brand) -> None:
        """Mark this process and all its future descendants; without effect if the limit is lower already."""
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_RTTIME, brand)

    def seize(thread: int) -> None:
        """Start to stop the thread like a debugger, so that only SIGKILL wakes it; see ptrace(2).

        waitid(2) reports when it has stopped. Raises OSError.
        """
        _ptrace(_PTRACE_SEIZE, thread)
        _ptrace(_PTRACE_INTERRUPT, thread)

    def stop_of(thread: int) -> tuple[int, int] | None:
        """The event and the signal with which a seized thread has stopped; None if it has not. Once for each stop.

        Raises ChildProcessError if it is gone, or not seized.
        """
        stop = os.waitid(os.P_PID, thread, os.WSTOPPED | os.WNOHANG | _ANY_THREAD)
        return None if stop is None else (stop.si_status >> 8, stop.si_status & 0x7F)

    def set_free(thread: int, number: int) -> None:
        """Continue a stopped, seized thread, with this signal if it is not 0. Raises OSError."""
        _ptrace(_PTRACE_DETACH, thread, number)

    def _ptrace(request: int, thread: int, data: int = 0) -> None:
        if _LIBC.ptrace(request, thread, ctypes.c_void_p(None), ctypes.c_void_p(data)) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def drop_pending(number: signal.Signals) -> None:
        """Drop a blocked signal that is pending, if there is one."""
        signal.sigtimedwait((number,), 0)

    def usable_processors() -> int:
        """The number of processors that this process may use."""
        return len(os.sched_getaffinity(0))

else:
    ADOPTS_ORPHANS: Final = False
    FORKS_MAY_DO_ANYTHING: Final = False

    def die_with_parent(number: signal.Signals, parent: int) -> bool:
        """Return False if `parent` is gone already. Its later end sends nothing here."""
        return os.getppid() == parent

    def become_subreaper(on: bool = True) -> None:
        """Do nothing: orphans become children of the first process."""

    def take_precedence() -> None:
        """Do nothing: children would inherit the priority."""

    def take_brand(brand: Brand) -> None:
        """Do nothing: processes inherit no mark."""

    def seize(thread: int) -> None:
        """Raise OSError: no thread can be stopped like that."""
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def stop_of(thread: int) -> tuple[int, int] | None:
        return None

    def set_free(thread: int, number: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def drop_pending(number: signal.Signals) -> None:
        """Drop a signal that all threads block and that is pending, if there is one."""
        if number in signal.sigpending():
            signal.sigwait((number,))

    def usable_processors() -> int:
        return os.cpu_count() or 1
