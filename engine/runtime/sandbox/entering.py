"""Enters a `Domain`, layer by layer, and says which of them hold. Nothing leads out again.

The process must have a single thread, because Landlock and the filter hold the thread that enters them and what that
starts, and must have closed what others may have opened for writing: what is open stays as it was opened. Called in the
forked process, before anything of the user's runs. What cannot be entered is missing in the answer, and whoever asked
decides what that means; `missing` says why, for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from ...core.domain import LAYERS, PARTS, Domain, Layer
from . import capabilities, kernel, landlock, mounts, seccomp


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
    capabilities.keep_only(capabilities.of_root())
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


MISSING: Final[Mapping[Layer, Callable[[], str]]] = {
    "landlock": landlock.missing,
    "seccomp": seccomp.missing,
    "mounts": mounts.missing,
}
"""Why a layer is not to be had here, in a phrase; empty where it is."""
