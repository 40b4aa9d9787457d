"""What keeps processes from reading each other where no domain holds them: dumpability, capabilities, and Landlock.

A statement runs as its user, and the kernel lets processes of one user read each other's memory and environment, where
keys are. Three rules of the kernel's `ptrace` check are used against that:

- A process that is not dumpable is read with CAP_SYS_PTRACE alone. Host and zygote are not dumpable. Workers are,
  because they hold no key and the memory of their processes is counted from outside.
- So workers of root lose that capability and those that come to the same. They leave the bounding set too, because root
  gets all of that set again with each program it starts. Then all processes that have more are out of their reach.
- A process in a Landlock domain may read no process outside of it, root or not, dumpable or not. That alone hides the
  programs above the host from other users than root: editor and shell hold the same keys and are not ours to change.

A process in a `Domain` has all of that from `sandbox`. Must not know what a worker does. Called by `child` in the
forked worker, by the zygote and by the host's `hardening`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from ...sandbox import capabilities, kernel, landlock

_DROPPED: Final = (capabilities.SYS_RAWIO, capabilities.SYS_PTRACE, capabilities.SYS_ADMIN, capabilities.PERFMON)
"""Each reads the memory of others: by /proc/kcore, by tracing, by entering namespaces, by probes in the kernel."""
_OLDEST: Final = 2
"""Version 1 (Linux 5.13 to 5.18) cannot allow to move a file into another directory, so its domains do harm."""


def become_unreadable() -> None:
    """Makes this process one that no other may read or trace, but for one with CAP_SYS_PTRACE.

    A fork inherits it; a program that it starts is readable again.
    """
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def give_up_reading_others(*, domain: bool) -> None:
    """Gives up what would let this process, and all that it starts, read processes that are not below it.

    Args:
        domain: also enters a Landlock domain, which hides dumpable processes of the same user too. That ends what gains
            privileges by being started (`sudo`), unless this process has CAP_SYS_ADMIN.
    """
    if domain and hides_processes():
        _enter_domain()
    capabilities.drop(_DROPPED)
    with suppress(OSError):
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)


def hides_processes() -> bool:
    """Whether this kernel has what a domain takes."""
    return landlock.version() >= _OLDEST


def _enter_domain() -> None:
    try:
        landlock.enter_unrestricted()
    except PermissionError:
        # Asked of everyone without CAP_SYS_ADMIN, so that no program that gains rights is confined by its starter.
        with suppress(OSError):
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            landlock.enter_unrestricted()
    except OSError:
        pass
