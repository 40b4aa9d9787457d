"""Enters a `Domain`, layer by layer, and reports which layers are active. A process cannot leave it.

The process must have a single thread, because Landlock and the filter apply to the calling thread and its children. It
must have closed descriptors that others opened for writing, because open files stay writable. Called in the forked
process before any user code. A layer that cannot be entered is missing in the answer, and the caller decides what that
means; `missing` gives the reason for people. The capabilities of root beyond its user's rights are dropped for good.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

from ...core.domain import LAYERS, PARTS, Domain, Layer
from . import kernel, landlock, mounts, seccomp

CHOWN: Final = 0
DAC_OVERRIDE: Final = 1
DAC_READ_SEARCH: Final = 2
FOWNER: Final = 3
SYS_RAWIO: Final = 17
SYS_PTRACE: Final = 19
SYS_ADMIN: Final = 21
PERFMON: Final = 38
_LAST: Final = 63
"""There is no room for more in the kernel's sets."""
_VERSION: Final = 0x20080522
_HEADER: Final = Struct("=Ii")
"""The version, and whose they are: 0 for the caller's own."""
_SETS: Final = Struct("=6I")
"""Effective, permitted and inheritable of the lower 32, then of the upper 32."""
_HALF: Final = 32
MISSING: Final[Mapping[Layer, Callable[[], str]]] = {
    "landlock": landlock.missing,
    "seccomp": seccomp.missing,
    "mounts": mounts.missing,
}
"""Why a layer is not to be had here, in a phrase; empty where it is."""


def enter(domain: Domain, shared_bytes: int) -> tuple[Layer, ...]:
    """Holds this process to the domain, for good, and ends what gains privileges by being started (`sudo`).

    Returns the layers that hold it, and the parts of them. Raises OSError where the process is of no use any more.

    Args:
        shared_bytes: what the memory may hold that its processes share by name, where that is their own.
    """
    writable = (domain.scratch, *domain.writable)
    entered = set[Layer]()
    if "mounts" not in domain.without and not mounts.missing():
        mounts.enter(writable, domain.read_only, domain.hidden, shared_bytes)
        entered.add("mounts")
    keep_only(of_root())
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if "landlock" not in domain.without:
        with suppress(OSError):
            entered.update(landlock.enter(writable, network=domain.network, without=domain.without))
            entered.add("landlock")
    if "seccomp" not in domain.without:
        with suppress(OSError):
            seccomp.enter(network=domain.network)
            entered.add("seccomp")
    # Its memory is counted from outside, as that of all workers.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    return tuple(layer for layer in (*LAYERS, *PARTS) if layer in entered)


def prepare(domain: Domain) -> None:
    """Finds out what takes time, once; for the parent of those that enter."""
    if "mounts" not in domain.without:
        mounts.missing()
    seccomp.prepare(network=domain.network)


# --- capabilities -----------------------------------------------------------------------------------------------------


def keep_only(kept: Collection[int]) -> None:
    """Gives up all capabilities but these."""
    drop([number for number in range(_LAST + 1) if number not in kept])


def drop(dropped: Sequence[int]) -> None:
    """Gives up these, also for programs that it starts: root gets all of the bounding set again with each.

    In ascending order. Without CAP_SETPCAP that set stays, and only what gains privileges by being started could have
    them back.
    """
    with suppress(OSError):  # the rest has no meaning yet
        for number in dropped:
            kernel.prctl(kernel.PR_CAPBSET_DROP, number)
    header, held = _HEADER.pack(_VERSION, 0), ctypes.create_string_buffer(_SETS.size)
    with suppress(OSError):
        kernel.get_capabilities(header, held)
        sets = list(_SETS.unpack(held.raw))
        for number in dropped:
            half, bit = divmod(number, _HALF)
            for kind in range(3):
                sets[3 * half + kind] &= ~(1 << bit)
        kernel.set_capabilities(header, _SETS.pack(*sets))


def of_root() -> Collection[int]:
    """What root keeps in a domain: other users' files are as its own, where Landlock lets it write."""
    return (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER) if os.geteuid() == 0 else ()
