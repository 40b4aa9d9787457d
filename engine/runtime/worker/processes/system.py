"""What a process sets or asks about itself: identity, privileges, descriptors, signals, and C memory.

`is_own` tells whether this process is the worker. A forked copy of a worker has all of its objects, and most of them
must do nothing there. They ask here instead of storing a process id, because a restored worker is a forked copy that
continues as the worker.

Privileges: a statement runs as its user, and the kernel lets processes of one user read each other's memory and
environment, where keys are. Three rules of the kernel's `ptrace` check prevent that without a domain:

- Only CAP_SYS_PTRACE can read a process that is not dumpable. Host and zygote are not dumpable. Workers are, because
  they hold no key, and because the memory of their processes is counted from outside.
- So root's workers drop that capability and equivalent ones. They also leave the bounding set, because root would get
  them again with each program that it starts. Then processes that have more capabilities cannot be read.
- A process in a Landlock domain can read no process outside of it, with or without root, dumpable or not. Only that
  hides the programs above the host from users other than root: editor and shell have the same keys, and we cannot
  change them.

A process in a `Domain` gets all of that from `sandbox`. Must not know what a worker does. Used by the zygote, workers,
keepers, and the host's `hardening`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from contextlib import suppress
from typing import Final

from ...sandbox import entering, kernel, landlock
from .brands import Brand

_pid = os.getpid()
_DROPPED: Final = (entering.SYS_RAWIO, entering.SYS_PTRACE, entering.SYS_ADMIN, entering.PERFMON)
"""Each reads the memory of others: by /proc/kcore, by tracing, by entering namespaces, by probes in the kernel."""
_OLDEST: Final = 2
"""Version 1 (Linux 5.13 to 5.18) cannot allow to move a file into another directory, so its domains do harm."""
_STREAMS: Final = 3
_FIRST: Final = -20
"""The highest precedence that is no real-time one."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PTRACE_SEIZE, _PTRACE_INTERRUPT, _PTRACE_DETACH = 0x4206, 0x4207, 17
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
_MASK_BYTES: Final = 128
"""Of a set of signals, as C libraries for Linux have it."""


def is_own() -> bool:
    """Whether this is the worker itself and not something that it forked."""
    return os.getpid() == _pid


def take_place() -> None:
    """From now on this process is the worker, for all that was copied into it."""
    global _pid  # noqa: PLW0603 -- a process is one thing, whoever asks
    _pid = os.getpid()


# --- privileges -------------------------------------------------------------------------------------------------------


def become_unreadable() -> None:
    """Makes this process one that no other may read or trace, but for one with CAP_SYS_PTRACE.

    A fork inherits it; a program that it starts is readable again.
    """
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def give_up_reading_others(*, domain: bool) -> None:
    """Gives up what would let this process, and all that it starts, read processes that are not below it.

    Args:
        domain: also enters a Landlock domain, which hides dumpable processes of the same user too. That ends what gains
            privileges by being started (`sudo`), unless this process has CAP_SYS_ADMIN.
    """
    if domain and hides_processes():
        _enter_domain()
    entering.drop(_DROPPED)
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def hides_processes() -> bool:
    """Whether this kernel has what a domain takes."""
    return landlock.version() >= _OLDEST


def _enter_domain() -> None:
    try:
        landlock.enter_unrestricted()
    except PermissionError:
        # Asked of everyone without CAP_SYS_ADMIN, so that no program that gains rights is confined by its starter.
        with suppress(OSError):
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            landlock.enter_unrestricted()
    except OSError:
        pass


# --- descriptors ------------------------------------------------------------------------------------------------------


def close_all_but(*kept: int) -> None:
    """Closes all others but the three streams: the channels of other processes among what the zygote has open."""
    highest = max(map(int, os.listdir("/proc/self/fd")), default=0)
    for low, high in zip((_STREAMS - 1, *sorted(kept)), (*sorted(kept), highest + 2), strict=True):
        os.closerange(low + 1, high)


# --- signals, parents and memory --------------------------------------------------------------------------------------


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
