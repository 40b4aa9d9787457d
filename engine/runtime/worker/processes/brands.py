"""The brand: a mark on a zygote and all that descends from it, which says whose it is.

Nothing else holds on to a process for good: parents die, sessions and groups are left, environments are emptied. The
two values of RLIMIT_RTTIME mean nothing to processes without real-time scheduling, every descendant inherits them, and
they survive exec, setsid and reparenting. Only a process that sets this limit itself gets rid of its brand.

The values are microseconds of real-time CPU that no process uses up, so all their bits are free. The soft one names a
process and which of its zygotes it is; the hard one says among which processes that number counts:

    soft    1 at bit 61, number of the zygote (5 bits), start of the host in clock ticks (34), pid of the host (22)
    hard    1 at bit 62, namespaces of the host (30), user of the host (32)

A soft value may be changed freely up to the hard one, so an agent started by a statement of another brands its own.
A host is dead when no process has its number and start: read from /proc by a process of the same user in the same
namespaces, because a number means another process elsewhere. Imports the standard library alone, and nothing of it that
takes time. Must not know how processes are ended.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from .proc import read, stat_of

_SOFT_FLAG: Final = 1 << 61
_HARD_FLAG: Final = 1 << 62
_SERIAL: Final = (56, (1 << 5) - 1)
_START: Final = (22, (1 << 34) - 1)
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
    soft = _SOFT_FLAG | _placed(serial, _SERIAL) | _placed(found.start, _START) | _placed(os.getpid(), _PID)
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
    return found is None or found.state == b"Z" or found.start & _START[1] != _part(brand.soft, _START)


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
