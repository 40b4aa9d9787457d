"""Facts about processes: which ones there are, their parents, children, threads, states and starts.

On Linux they are in /proc; on macOS, libproc asks the kernel for them. Imports only fast parts of the standard library
on Linux, because a host reads its own entry at the very start. Must not know what the facts are for. Used by all code
that counts, ends or recognizes processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple


class Stat(NamedTuple):
    """One process: its state as a letter of proc(5), its parent, its start in a unit of the system, its process group
    and its session."""

    state: bytes
    parent: int
    start: int
    group: int
    session: int


def read(path: str) -> bytes:
    """The start of a file, enough for /proc files of one process; empty if it cannot be read."""
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
    """The session of a process; 0 if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


if sys.platform == "linux":
    _ANY_KIND: Final = 0x40000000
    """`__WALL`: also children whose end sends no signal."""
    _STATE, _PARENT, _GROUP, _SESSION, _START = 0, 1, 2, 3, 19
    """Positions among the fields of /proc/PID/stat after the command."""

    _USUAL: Final = 1 << 1 | 1 << 31 | 1 << 32
    """Signals that a process handles in any case, as a set: SIGINT, and the two that the C library uses for threads."""

    def pids() -> list[int]:
        """All visible processes of this namespace, including zombies; none without /proc."""
        try:
            return [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return []

    def stat_of(pid: int | str) -> Stat | None:
        """The kernel's facts about a process; None if it is gone."""
        # The command may contain spaces and brackets, so fields are counted from the last closing one.
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) <= _START:
            return None
        numbers = (int(fields[place]) for place in (_PARENT, _START, _GROUP, _SESSION))
        return Stat(fields[_STATE], *numbers)

    def children_of(pid: int | str) -> frozenset[int] | None:
        """The children of all threads of a process, including zombies.

        None if they are unknown, because the process is gone or a statement has used up all descriptors.
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
        """Whether this process has children, including zombies. One system call, while `children_of` reads files."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _ANY_KIND)
        except ChildProcessError:
            return False
        return True

    def is_childless(pid: int) -> bool:
        """Whether a process with a single thread has no child. Raises OSError if the kernel does not tell."""
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listed:
            return not listed.read()

    def threads_of(pid: int) -> int:
        """The number of threads of a process. Raises OSError if it is gone."""
        return len(os.listdir(f"/proc/{pid}/task"))

    def may_be_woken(pid: int) -> bool:
        """Whether a process has a timer, or handles an unusual signal; True if unknown."""
        caught = read(f"/proc/{pid}/status").partition(b"SigCgt:")[2].split()
        return not caught or bool(int(caught[0], 16) & ~_USUAL) or bool(read(f"/proc/{pid}/timers"))

    def own_threads() -> list[int]:
        """The threads of this process, by the ids of `threading.get_native_id`. Raises OSError if it does not know."""
        return list(map(int, os.listdir("/proc/self/task")))

    def boot_id() -> str:
        """A word that changes when the system starts again: before, the starts of processes mean another time."""
        return read("/proc/sys/kernel/random/boot_id").decode().strip()

    def pid_namespace() -> str:
        """The name of the namespace in which process ids are valid here. Raises OSError."""
        return os.readlink("/proc/self/ns/pid")

    def latest_pid() -> int:
        """The last process id that the kernel gave: as long as it is the same, no process was started. 0 if unknown."""
        fields = read("/proc/loadavg").split()
        return int(fields[-1]) if fields else 0

else:
    import ctypes
    from struct import Struct

    _LIBPROC: Final = ctypes.CDLL("/usr/lib/libproc.dylib", use_errno=True)
    _ALL: Final = 1
    """PROC_ALL_PIDS."""
    _PROCESS, _TASK, _THREAD_IDS = 3, 4, 28
    """PROC_PIDTBSDINFO, PROC_PIDTASKINFO and PROC_PIDLISTTHREADIDS."""
    _ALSO_ZOMBIES: Final = 1
    _INFO: Final = Struct("=12I16s32s5Ii2Q")
    """`struct proc_bsdinfo`."""
    _IN_INFO_STATUS, _IN_INFO_PARENT, _IN_INFO_GROUP, _IN_INFO_SECONDS, _IN_INFO_MICROSECONDS = 1, 4, 15, 20, 21
    _THREADS: Final = Struct("=84xi8x")
    """The number of threads in `struct proc_taskinfo`."""
    _STATES: Final = {1: b"I", 2: b"R", 3: b"S", 4: b"T", 5: b"Z"}
    """The letters of proc(5) for SIDL, SRUN, SSLEEP, SSTOP and SZOMB."""
    _ID: Final = 4
    _MORE: Final = 64
    """Room for processes that start between the count and the list."""

    def pids() -> list[int]:
        """All processes; none if the system does not tell."""
        return [pid for pid in _ids(lambda room, size: _LIBPROC.proc_listpids(_ALL, 0, room, size)) if pid]

    def stat_of(pid: int | str) -> Stat | None:
        """The kernel's facts about a process; None if it is gone."""
        number = _number(pid)
        found = _told(number, _PROCESS, _ALSO_ZOMBIES, _INFO.size)
        if found is None:
            return None
        fields = _INFO.unpack(found)
        start = fields[_IN_INFO_SECONDS] * 10**6 + fields[_IN_INFO_MICROSECONDS]
        state = _STATES.get(fields[_IN_INFO_STATUS], b"R")
        return Stat(state, fields[_IN_INFO_PARENT], start, fields[_IN_INFO_GROUP], session_of(number))

    def children_of(pid: int | str) -> frozenset[int] | None:
        """The children of a process; None if it is gone. Not those of a zombie, which have another parent."""
        number = _number(pid)
        if stat_of(number) is None:
            return None
        return frozenset(each for each in pids() if (found := stat_of(each)) is not None and found.parent == number)

    def has_children() -> bool:
        """Whether this process has children, including zombies."""
        return bool(children_of("self"))

    def is_childless(pid: int) -> bool:
        """Whether a process has no child."""
        return not children_of(pid)

    def threads_of(pid: int) -> int:
        """The number of threads of a process. Raises OSError if it is gone, or another user's."""
        found = _told(pid, _TASK, 0, _THREADS.size)
        if found is None:
            raise ProcessLookupError(f"process {pid} is gone")
        return int(_THREADS.unpack(found)[0])

    def own_threads() -> list[int]:
        count = threads_of(os.getpid()) + _MORE
        room = (ctypes.c_uint64 * count)()
        size = _LIBPROC.proc_pidinfo(os.getpid(), _THREAD_IDS, ctypes.c_uint64(0), room, ctypes.sizeof(room))
        return list(room[: size // ctypes.sizeof(ctypes.c_uint64)])

    def boot_id() -> str:
        """The same word always, because the starts of processes are times of a calendar."""
        return "-"

    def pid_namespace() -> str:
        """The same name always: there is one."""
        return "-"

    def latest_pid() -> int:
        """0, because the kernel does not tell."""
        return 0

    def _number(pid: int | str) -> int:
        return os.getpid() if pid == "self" else int(pid)

    def _ids(fill: Callable[[Any, int], int]) -> list[int]:
        count = fill(None, 0) // _ID + _MORE
        room = (ctypes.c_int * count)()
        return list(room[: fill(room, ctypes.sizeof(room)) // _ID])

    def may_be_woken(pid: int) -> bool:
        """Always true, because libproc does not tell."""
        return True

    def _told(pid: int, kind: int, argument: int, size: int) -> bytes | None:
        room = ctypes.create_string_buffer(size)
        given = _LIBPROC.proc_pidinfo(pid, kind, ctypes.c_uint64(argument), room, size)
        return room.raw if given == size else None
