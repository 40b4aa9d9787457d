"""What a process asks of the system about itself: signals, also at its parent's end, orphans, its brand, C buffers and
C's free memory. And holds threads of others as a debugger does.

Must not know who asks. Used by the zygote and by all of a worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from typing import Final

from .brands import Brand

_FIRST: Final = -20
"""The highest precedence that is no real-time one."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_MASK_BYTES: Final = 128
"""Of a set of signals, as C libraries for Linux have it."""


def die_with_parent(number: signal.Signals, parent: int) -> bool:
    """Has `number` sent to this process when the thread that created it ends; False when `parent` is gone already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    return os.getppid() == parent


def become_subreaper(on: bool = True) -> None:
    """Makes orphaned descendants children of this process, or no longer."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def take_precedence() -> None:
    """Has this process run before others, but none of those that it starts; without effect where that is not permitted.

    Whoever is to end what forks without end must get a processor among hundreds that want it. A kernel that shares the
    processors between sessions goes by the number of the session (sched(7), autogroup), another by that of the process.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) != 0 or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return  # somebody has chosen one, which those that it starts are to have; a real-time one is above this
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as number:
        number.write(str(_FIRST))


def take_brand(brand: Brand) -> None:
    """Marks this process and all its descendants to come; without effect where the limit is lower already."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTTIME, brand)


def seize(thread: int) -> None:
    """Begins to stop the thread as a debugger does, so that no signal but SIGKILL wakes it; see ptrace(2).

    It has stopped when waitid(2) says so. Raises OSError.
    """
    _ptrace(_PTRACE_SEIZE, thread)
    _ptrace(_PTRACE_INTERRUPT, thread)


def set_free(thread: int, number: int) -> None:
    """Lets a seized thread that has stopped go on, with this signal if it is not 0. Raises OSError."""
    _ptrace(_PTRACE_DETACH, thread, number)


def _ptrace(request: int, thread: int, data: int = 0) -> None:
    if _LIBC.ptrace(request, thread, ctypes.c_void_p(None), ctypes.c_void_p(data)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def block_signals() -> ctypes.Array[ctypes.c_char]:
    """Blocks all signals in this thread. What it blocked until now, for `set_blocked`.

    By the C library, because Python makes a member of an enumeration of each signal, which takes a third of a
    millisecond in all.
    """
    every, before = ctypes.create_string_buffer(_MASK_BYTES), ctypes.create_string_buffer(_MASK_BYTES)
    _LIBC.sigfillset(every)
    _LIBC.pthread_sigmask(signal.SIG_BLOCK, every, before)
    return before


def set_blocked(signals: ctypes.Array[ctypes.c_char]) -> None:
    """Has this thread block those and no others."""
    _LIBC.pthread_sigmask(signal.SIG_SETMASK, signals, None)


def flush_c_streams() -> None:
    """Writes out what C code printed: libc buffers fully where stdout is a pipe."""
    _LIBC.fflush(None)


def give_back_memory() -> None:
    """Returns to the system what C's allocator holds free; without effect where the C library is not GNU's."""
    if trim := getattr(_LIBC, "malloc_trim", None):
        trim(0)


def send(pid: int, number: signal.Signals) -> None:
    """Sends the signal; a process that is gone or not ours is ignored."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
