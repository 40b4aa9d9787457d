"""Facts about processes from /proc: which ones there are, their parents, children, states and starts.

Imports only fast parts of the standard library, because a host reads its own entry at the very start. Must not know
what the facts are for. Used by all code that counts, ends or recognizes processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

_ANY_KIND: Final = 0x40000000
"""`__WALL`: also children whose end sends no signal."""
_STATE, _PARENT, _GROUP, _SESSION, _START = 0, 1, 2, 3, 19
"""Positions among the fields of /proc/PID/stat after the command."""


class Stat(NamedTuple):
    """One process: its state as a letter, its parent, its start in clock ticks since boot, its process group and its
    session."""

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


def latest_pid() -> int:
    """The last process id that the kernel gave: as long as it is the same, no process was started. 0 if unknown."""
    fields = read("/proc/loadavg").split()
    return int(fields[-1]) if fields else 0
