"""Which process is the worker: what a statement forks is another, until it takes the worker's place.

A forked copy of a worker finds all of its objects, and most of them must do nothing there. They ask here instead of
keeping an id of their own, because a restored worker is a forked copy that goes on as the worker. Must not know who
asks, nor how copies are made. Also right in a host, which has statements in a thread of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from contextlib import suppress
from typing import Final, NamedTuple

from ...sandbox import entering, kernel, landlock

_pid = os.getpid()


def is_own() -> bool:
    """Whether this is the worker itself and not something that it forked."""
    return os.getpid() == _pid


def take_place() -> None:
    """From now on this process is the worker, for all that was copied into it."""
    global _pid  # noqa: PLW0603 -- a process is one thing, whoever asks
    _pid = os.getpid()


# privileges:
# What keeps processes from reading each other where no domain holds them: dumpability, capabilities, and Landlock.
#
# A statement runs as its user, and the kernel lets processes of one user read each other's memory and environment,
# where keys are. Three rules of the kernel's `ptrace` check are used against that:
#
# - A process that is not dumpable is read with CAP_SYS_PTRACE alone. Host and zygote are not dumpable. Workers are,
# because they hold no key and the memory of their processes is counted from outside.
# - So workers of root lose that capability and those that come to the same. They leave the bounding set too, because
# root
# gets all of that set again with each program it starts. Then all processes that have more are out of their reach.
# - A process in a Landlock domain may read no process outside of it, root or not, dumpable or not. That alone hides
# the
# programs above the host from other users than root: editor and shell hold the same keys and are not ours to change.
#
# A process in a `Domain` has all of that from `sandbox`. Must not know what a worker does. Called by `child` in the
# forked worker, by the zygote and by the host's `hardening`.

_DROPPED: Final = (entering.SYS_RAWIO, entering.SYS_PTRACE, entering.SYS_ADMIN, entering.PERFMON)
"""Each reads the memory of others: by /proc/kcore, by tracing, by entering namespaces, by probes in the kernel."""
_OLDEST: Final = 2
"""Version 1 (Linux 5.13 to 5.18) cannot allow to move a file into another directory, so its domains do harm."""


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


# descriptors:
# Which descriptors a forked process keeps of its parent's. Called by `child` and `program`.

_STREAMS: Final = 3


def close_all_but(*kept: int) -> None:
    """Closes all others but the three streams: the channels of other processes among what the zygote has open."""
    highest = max(map(int, os.listdir("/proc/self/fd")), default=0)
    for low, high in zip((_STREAMS - 1, *sorted(kept)), (*sorted(kept), highest + 2), strict=True):
        os.closerange(low + 1, high)


# proc:
# What is read of /proc: which processes there are, whose children they are, and since when they run.
#
# Imports the standard library alone, and nothing of it that takes time, because a host reads its own entry at the
# very start. Must not know why anything is read. Used by all that counts, ends or recognises processes.

_ANY_KIND: Final = 0x40000000
"""`__WALL`: also those of whose end nobody is told by a signal."""
_STATE, _PARENT, _GROUP, _SESSION, _START = 0, 1, 2, 3, 19
"""Of the fields of /proc/PID/stat that come after the command."""


class Stat(NamedTuple):
    """One process: its state as a letter, its parent, its start in clock ticks after that of the machine, and the
    process group and the session that it is in."""

    state: bytes
    parent: int
    start: int
    group: int
    session: int


def read(path: str) -> bytes:
    """The start of a file, enough for any of /proc that is about one process; empty where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def pids() -> list[int]:
    """All processes of this namespace that can be seen, zombies included; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def stat_of(pid: int | str) -> Stat | None:
    """What the kernel says of a process, None where it is gone."""
    # The command may hold spaces and brackets: fields are counted from the last closing one.
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) <= _START:
        return None
    numbers = (int(fields[place]) for place in (_PARENT, _START, _GROUP, _SESSION))
    return Stat(fields[_STATE], *numbers)


def children_of(pid: int | str) -> frozenset[int] | None:
    """The children of a process, whichever of its threads started them, zombies included.

    None where it cannot be found out, because the process is gone or a statement has used up all descriptors.
    """
    found: set[int] = set()
    if pid == "self" and not has_children():
        return frozenset()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/children", "rb") as listed:
                found.update(map(int, listed.read().split()))
    except OSError:
        return None
    return frozenset(found)


def has_children() -> bool:
    """Whether this process has any, zombies included. One system call, where `children_of` reads a file."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _ANY_KIND)
    except ChildProcessError:
        return False
    return True


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process descends from another."""
    seen: set[int] = set()
    while pid not in (0, *seen):
        seen.add(pid)
        found = stat_of(pid)
        if found is None or found.parent == ancestor:
            return found is not None
        pid = found.parent
    return False


def session_of(pid: int) -> int:
    """The session that a process is in; 0 where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def latest_pid() -> int:
    """The number that was given last: while it stays the same, no process has begun. 0 where nobody says."""
    fields = read("/proc/loadavg").split()
    return int(fields[-1]) if fields else 0


# brands:
# The brand: a mark on a zygote and all that descends from it, which says whose it is.
#
# Nothing else holds on to a process for good: parents die, sessions and groups are left, environments are emptied.
# The two values of RLIMIT_RTTIME mean nothing to processes without real-time scheduling, every descendant inherits
# them, and they survive exec, setsid and reparenting. Only a process that sets this limit itself gets rid of its
# brand.
#
# The values are microseconds of real-time CPU that no process uses up, so all their bits are free. The soft one names
# a process and which of its zygotes it is; the hard one says among which processes that number counts:
#
# soft    1 at bit 61, number of the zygote (5 bits), start of the host in clock ticks (34), pid of the host (22) hard
# 1 at bit 62, namespaces of the host (30), user of the host (32)
#
# A soft value may be changed freely up to the hard one, so an agent started by a statement of another brands its own.
# A host is dead when no process has its number and start: read from /proc by a process of the same user in the same
# namespaces, because a number means another process elsewhere. Imports the standard library alone, and nothing of it
# that takes time. Must not know how processes are ended.

_SOFT_FLAG: Final = 1 << 61
_HARD_FLAG: Final = 1 << 62
_SERIAL: Final = (56, (1 << 5) - 1)
_BRANDS_START: Final = (22, (1 << 34) - 1)
_PID: Final = (0, (1 << 22) - 1)
"""Where a part stands, and the mask of its bits; 22 bits are the kernel's own bound on process ids."""
_NAMESPACES: Final = (32, (1 << 30) - 1)
_USER: Final = (0, (1 << 32) - 1)
_LINE: Final = b"Max realtime timeout"


class Brand(NamedTuple):
    """The two values of the limit."""

    soft: int
    hard: int

    @property
    def host(self) -> int:
        """The process id of the host, in its own namespace."""
        return _part(self.soft, _PID)


def own_brand(serial: int) -> Brand:
    """The brand of this process's zygote number `serial`, of which it tells 32 apart. Raises OSError without /proc."""
    found = stat_of("self")
    if found is None:
        raise OSError("/proc is not mounted")
    soft = _SOFT_FLAG | _placed(serial, _SERIAL) | _placed(found.start, _BRANDS_START) | _placed(os.getpid(), _PID)
    return Brand(soft, _own_hard())


def brand_of(pid: int) -> Brand | None:
    """The brand of a process, None where it has none or is gone."""
    _, found, line = read(f"/proc/{pid}/limits").partition(_LINE)
    values = line.split(None, 2)[:2]
    if not found or not all(value.isdigit() for value in values):
        return None
    brand = Brand(*map(int, values))
    return brand if brand.soft & _SOFT_FLAG and brand.hard & _HARD_FLAG else None


def host_is_dead(brand: Brand) -> bool:
    """Whether the brand is of a host of this user in these namespaces, which does not run any more."""
    if brand.hard != _own_hard():
        return False
    found = stat_of(brand.host)
    return found is None or found.state == b"Z" or found.start & _BRANDS_START[1] != _part(brand.soft, _BRANDS_START)


def _own_hard() -> int:
    namespaces = _inode("pid") * 31 + _inode("time")
    return _HARD_FLAG | _placed(namespaces, _NAMESPACES) | _placed(os.getuid(), _USER)


def _inode(namespace: str) -> int:
    try:
        return os.stat(f"/proc/self/ns/{namespace}").st_ino
    except OSError:
        return 0  # a kernel without it has one for all


def _placed(value: int, place: tuple[int, int]) -> int:
    shift, mask = place
    return (value & mask) << shift


def _part(value: int, place: tuple[int, int]) -> int:
    shift, mask = place
    return value >> shift & mask


# system:
# What a process asks of the system about itself: signals, also at its parent's end, orphans, its brand, C buffers and
# C's free memory. And holds threads of others as a debugger does.
#
# Must not know who asks. Used by the zygote and by all of a worker.

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
