"""Facts about processes from /proc, and the brand: a mark on a zygote and all its descendants that names their host.

Nothing else stays with a process: parents die, processes leave sessions and groups, and empty their environment. The
two values of RLIMIT_RTTIME have no effect without real-time scheduling, every descendant inherits them, and they
survive exec, setsid and reparenting. Only a process that sets this limit loses its brand.

The values are microseconds of real-time CPU that no process uses up, so all their bits are free. The soft value names a
host process and the number of its zygote. The hard value names the namespaces in which that process id is valid:

- soft: 1 at bit 61, number of the zygote (5 bits), start of the host in clock ticks (34), pid of the host (22)
- hard: 1 at bit 62, namespaces of the host (30), user of the host (32)

A process may change the soft value up to the hard one. So an agent that a statement of another agent starts can brand
its own processes. A host is dead if no process has its id and start. A process of the same user in the same namespaces
must read that from /proc, because elsewhere the id means another process.

Imports only fast parts of the standard library, because a host reads its own entry at the very start. Must not know
how processes are ended. Used by all code that counts, ends or recognizes processes.
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


_SOFT_FLAG: Final = 1 << 61
_HARD_FLAG: Final = 1 << 62
_SERIAL: Final = (56, (1 << 5) - 1)
_START_BITS: Final = (22, (1 << 34) - 1)
_PID: Final = (0, (1 << 22) - 1)
"""The position of a part, and the mask of its bits; process ids have at most 22 bits."""
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
    """The brand of this process's zygote number `serial`, modulo 32. Raises OSError without /proc."""
    found = stat_of("self")
    if found is None:
        raise OSError("/proc is not mounted")
    soft = _SOFT_FLAG | _placed(serial, _SERIAL) | _placed(found.start, _START_BITS) | _placed(os.getpid(), _PID)
    return Brand(soft, _own_hard())


def brand_of(pid: int) -> Brand | None:
    """The brand of a process; None if it has none or is gone."""
    _, found, line = read(f"/proc/{pid}/limits").partition(_LINE)
    values = line.split(None, 2)[:2]
    if not found or not all(value.isdigit() for value in values):
        return None
    brand = Brand(*map(int, values))
    return brand if brand.soft & _SOFT_FLAG and brand.hard & _HARD_FLAG else None


def host_is_dead(brand: Brand) -> bool:
    """Whether the brand names a dead host of this user in these namespaces."""
    if brand.hard != _own_hard():
        return False
    found = stat_of(brand.host)
    return found is None or found.state == b"Z" or found.start & _START_BITS[1] != _part(brand.soft, _START_BITS)


def _own_hard() -> int:
    namespaces = _inode("pid") * 31 + _inode("time")
    return _HARD_FLAG | _placed(namespaces, _NAMESPACES) | _placed(os.getuid(), _USER)


def _inode(namespace: str) -> int:
    try:
        return os.stat(f"/proc/self/ns/{namespace}").st_ino
    except OSError:
        return 0  # because a kernel without this kind has a single one


def _placed(value: int, place: tuple[int, int]) -> int:
    shift, mask = place
    return (value & mask) << shift


def _part(value: int, place: tuple[int, int]) -> int:
    shift, mask = place
    return value >> shift & mask
