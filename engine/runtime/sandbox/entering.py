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

from ...core.domain import LAYERS, PARTS, Domain, Layer, lacking
from ..system import kernel
from . import landlock, mounts, seatbelt, seccomp, sockets

CHOWN: Final = 0
DAC_OVERRIDE: Final = 1
DAC_READ_SEARCH: Final = 2
FOWNER: Final = 3
SYS_RAWIO: Final = 17
SYS_PTRACE: Final = 19
SYS_ADMIN: Final = 21
PERFMON: Final = 38
_DROPPED: Final = (SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, PERFMON)
"""Capabilities that allow reading other processes' memory: by /proc/kcore, tracing, namespaces, or kernel probes."""
_OLDEST: Final = 2
"""Version 1 (Linux 5.13 to 5.18) cannot allow moving files between directories, so its domains would do harm."""
_LAST: Final = 63
"""The highest number that fits into the kernel's capability sets."""
_VERSION: Final = 0x20080522
_HEADER: Final = Struct("=Ii")
"""The version, and the process: 0 for the caller."""
_SETS: Final = Struct("=6I")
"""Effective, permitted and inheritable: the lower 32 bits, then the upper 32."""
_HALF: Final = 32
MISSING: Final[Mapping[Layer, Callable[[], str]]] = (
    {"landlock": landlock.missing, "seccomp": seccomp.missing, "mounts": mounts.missing}
    if kernel.AVAILABLE
    else {"seatbelt": seatbelt.missing}
)
"""This system's layers, and why each is unavailable, as a phrase; empty if it is available."""


def enter(domain: Domain, shared_bytes: int) -> tuple[Layer, ...]:
    """Enter the domain for good; programs that gain privileges when started (`sudo`) no longer do.

    Returns the active layers and their parts. Raises OSError if the process cannot be used any more.

    Args:
        shared_bytes: the size limit of `/dev/shm`, if the domain gets its own.
    """
    if not kernel.AVAILABLE:
        return ()
    writable = (domain.scratch, *domain.writable)
    entered = set[Layer]()
    if "mounts" not in domain.without and not mounts.missing():
        unreachable = () if _refuses_sockets(domain) else sockets.outside(sockets.bound(domain), domain)
        mounts.enter(writable, domain.read_only, domain.hidden, shared_bytes, unreachable)
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
    # Readable again, because its memory is counted from outside, like that of all workers.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    return tuple(layer for layer in (*LAYERS, *PARTS) if layer in entered)


def _refuses_sockets(domain: Domain) -> bool:
    """Whether Landlock will keep the process from connecting to Unix sockets in the file tree."""
    return not {"landlock", "sockets"} & {*domain.without} and landlock.version() >= landlock.SINCE["sockets"]


def starter(domain: Domain) -> Sequence[str]:
    """What starts a program in the domain, on a system where programs are started in one (macOS).

    Empty if the process itself must `enter` the domain, or the layer is unavailable.
    """
    if kernel.AVAILABLE or "seatbelt" in domain.without or seatbelt.missing():
        return ()
    return seatbelt.command(domain)


def cannot_hold() -> str:
    """Why this kernel cannot sandbox statements, as a phrase; empty if it can. Needs no worker."""
    needed = lacking((), Domain(scratch="")) if kernel.AVAILABLE else MISSING
    return " and ".join(filter(None, (MISSING[layer]() for layer in needed)))


def prepare(domain: Domain) -> None:
    """Do the slow checks once, in the parent of processes that enter domains."""
    if not kernel.AVAILABLE:
        seatbelt.missing()
        return
    if "mounts" not in domain.without:
        mounts.missing()
    seccomp.prepare(network=domain.network)


# --- capabilities -----------------------------------------------------------------------------------------------------


def keep_only(kept: Collection[int]) -> None:
    """Drop all capabilities except these."""
    drop([number for number in range(_LAST + 1) if number not in kept])


def drop(dropped: Sequence[int]) -> None:
    """Drop these capabilities for this process and all programs that it starts. The numbers must be ascending.

    They leave the bounding set too, because a program of root gets all of that set again. Without CAP_SETPCAP the set
    stays; then only programs that gain privileges could get them back.
    """
    with suppress(OSError):  # because higher numbers do not exist yet
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
    """The capabilities that root keeps in a domain: it may use other users' files wherever Landlock lets it write."""
    return (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER) if os.geteuid() == 0 else ()


# --- without a domain of its own --------------------------------------------------------------------------------------
#
# Privileges: a statement runs as its user, and the kernel lets processes of one user read each other's memory and
# environment, where keys are. Three rules of the kernel's `ptrace` check prevent that without a domain:
#
# - Only CAP_SYS_PTRACE can read a process that is not dumpable. Host and zygote are not dumpable. Workers are, because
#   they hold no key, and because the memory of their processes is counted from outside.
# - So root's workers drop that capability and equivalent ones. They also leave the bounding set, because root would get
#   them again with each program that it starts. Then processes that have more capabilities cannot be read.
# - A process in a Landlock domain can read no process outside of it, with or without root, dumpable or not. Only that
#   hides the programs above the host from users other than root: editor and shell have the same keys, and we cannot
#   change them.


def give_up_reading_others(*, domain: bool) -> None:
    """Drop the rights by which this process, and all that it starts, could read processes that are not below it.

    Args:
        domain: also enter a Landlock domain, which also hides dumpable processes of the same user. Then programs like
            `sudo` gain no privileges, unless this process has CAP_SYS_ADMIN.
    """
    if domain and hides_processes():
        _enter_domain()
    drop(_DROPPED)
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def hides_processes() -> bool:
    """Whether this kernel supports such a domain."""
    return landlock.version() >= _OLDEST


def _enter_domain() -> None:
    try:
        landlock.enter_unrestricted()
    except PermissionError:
        # Required without CAP_SYS_ADMIN, so that no caller can confine a program that gains rights.
        with suppress(OSError):
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            landlock.enter_unrestricted()
    except OSError:
        pass
