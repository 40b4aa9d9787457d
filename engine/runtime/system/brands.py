"""The brand: a mark on a zygote and all its descendants that names their host.

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
from typing import Final, NamedTuple

from .process_table import read, stat_of

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
