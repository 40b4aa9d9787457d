"""What Linux offers for processes: who descends from whom, ending them all, prctl, and the brand.

A brand is an odd number in RLIMIT_RTTIME, which means nothing to processes without real-time scheduling, is inherited
by every descendant and survives exec, setsid and reparenting: the one way to find what a killed zygote left behind.
Must not know why processes are ended. Used by the zygote, by all of a worker and, for the brand, by the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections import defaultdict
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PARENT_FIELD: Final = 1
_BRAND_LINE: Final = b"Max realtime timeout"


def die_with_parent(number: signal.Signals, parent: int) -> bool:
    """Has `number` sent to this process when the thread that created it ends; False when `parent` is gone already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    return os.getppid() == parent


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def flush_c_streams() -> None:
    """Writes out what C code printed: libc buffers fully where stdout is a pipe."""
    _LIBC.fflush(None)


def brand(number: int) -> None:
    """Marks this process and all its descendants to come; without effect where the limit is lower already."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTTIME, (number, number))


def branded(number: int) -> list[int]:
    """Live processes with that brand, other than this one."""
    mark = str(number).encode()
    return [pid for pid in _pids() if pid != os.getpid() and _brand_of(pid) == mark]


def _brand_of(pid: int) -> bytes:
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(_BRAND_LINE):
            return line[len(_BRAND_LINE) :].split()[0]
    return b""


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _children() -> dict[int, list[int]]:
    """Process ids by parent. A zombie has no children left and cannot be ended, so it is left out."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        # The command may hold spaces and brackets: fields are counted from the last closing one.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > _PARENT_FIELD and fields[0] != b"Z":
            children[int(fields[_PARENT_FIELD])].append(pid)
    return children


def own_children() -> frozenset[int] | None:
    """Process ids of this process's children, whichever thread started them, zombies included.

    None where it cannot be found out, because a statement has used up all descriptors.
    """
    found: set[int] = set()
    try:
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{task}/children", "rb") as listed:
                found.update(map(int, listed.read().split()))
    except OSError:
        return None
    return frozenset(found)


def descendants(roots: list[int]) -> list[int]:
    """Live processes below `roots`, parents before children, the roots themselves left out."""
    children = _children()
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def end_tree(roots: list[int]) -> None:
    """Ends `roots` and everything below: each is stopped before the next look, so that none forks on."""
    stopped: set[int] = set()
    while fresh := [pid for pid in (*roots, *descendants(roots)) if pid not in stopped]:
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        stopped.update(fresh)
    for pid in stopped:
        send(pid, signal.SIGKILL)


def end_branded(number: int) -> None:
    """Ends every process with that brand, whoever its parent is by now."""
    seen: set[int] = set()
    while fresh := [pid for pid in branded(number) if pid not in seen]:
        for pid in fresh:
            _end_if_branded(pid, number)
        seen.update(fresh)


def _end_if_branded(pid: int, number: int) -> None:
    # A process that is no child may be gone and its id reused: the descriptor pins it before the second look.
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _brand_of(pid) == str(number).encode():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def send(pid: int, number: signal.Signals) -> None:
    """Sends the signal; a process that is gone or not ours is ignored."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
