"""What is read of /proc: which processes there are, whose children they are, and since when they run.

Imports the standard library alone, and nothing of it that takes time, because a host reads its own entry at the very
start. Must not know why anything is read. Used by all that counts, ends or recognises processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

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
