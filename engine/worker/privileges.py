"""What keeps processes from reading each other: dumpability, capabilities, and a Landlock domain.

A statement runs as its user, and the kernel lets processes of one user read each other's memory and environment, where
keys are. Three rules of the kernel's `ptrace` check are used against that:

- A process that is not dumpable is read with CAP_SYS_PTRACE alone. Host and zygote are not dumpable. Workers are,
  because they hold no key and the memory of their processes is counted from outside.
- So workers of root lose that capability and those that come to the same. They leave the bounding set too, because root
  gets all of that set again with each program it starts. Then all processes that have more are out of their reach.
- A process in a Landlock domain may read no process outside of it, root or not, dumpable or not. That alone hides the
  programs above the host from other users than root: editor and shell hold the same keys and are not ours to change.

Must not know what a worker does. Called by `child` in the forked worker, by the zygote and by the host's `hardening`.
"""

from __future__ import annotations

import ctypes
import os
from struct import Struct
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_CAPABILITY_VERSION: Final = 0x20080522
_SYS_RAWIO: Final = 17
_SYS_PTRACE: Final = 19
_SYS_ADMIN: Final = 21
_PERFMON: Final = 38
_DROPPED: Final = (_SYS_RAWIO, _SYS_PTRACE, _SYS_ADMIN, _PERFMON)
"""Each reads the memory of others: by /proc/kcore, by tracing, by entering namespaces, by probes in the kernel."""

# The numbers are those of every architecture: system calls since 5.1 have the same everywhere.
_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_ACCESS_FS_REFER: Final = 1 << 13
_OLDEST_ABI: Final = 2
"""Version 1 (Linux 5.13 to 5.18) cannot allow to move a file into another directory, so its domains do harm."""


_RULESET: Final = Struct("=Q")
"""The rights that are handled."""
_PATH_BENEATH: Final = Struct("=Qi")
"""The rights that are allowed, and the directory below which they are."""
_CAPABILITY_HEADER: Final = Struct("=Ii")
"""The version, and whose they are: 0 for the caller's own."""
_CAPABILITIES: Final = Struct("=6I")
"""Effective, permitted and inheritable of the lower 32, then of the upper 32."""


def become_unreadable() -> None:
    """Makes this process one that no other may read or trace, but for one with CAP_SYS_PTRACE.

    A fork inherits it; a program that it starts is readable again.
    """
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def give_up_reading_others(*, domain: bool) -> None:
    """Gives up what would let this process, and all that it starts, read processes that are not below it.

    Args:
        domain: also enters a Landlock domain, which hides dumpable processes of the same user too. That ends what gains
            privileges by being started (`sudo`), unless this process has CAP_SYS_ADMIN.
    """
    if domain:
        _enter_domain()
    for capability in _DROPPED:
        # Refused without CAP_SETPCAP; then only `sudo` and its like could give it back.
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _drop_capabilities()
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def hides_processes() -> bool:
    """Whether this kernel has what a domain takes."""
    version = _LIBC.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    return int(version) >= _OLDEST_ABI


def _enter_domain() -> None:
    """Enters a domain that restricts nothing but the sight of other processes.

    A ruleset has to handle something. Moving files between directories is what every ruleset over files denies, unless
    it is allowed; so that is handled, and allowed everywhere. All other access is not handled and stays as it was.
    What it costs: a domain over files may not mount, not even in a namespace of its own.
    """
    if not hides_processes():
        return
    handled = _RULESET.pack(_ACCESS_FS_REFER)
    ruleset = _LIBC.syscall(_LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        everywhere = _PATH_BENEATH.pack(_ACCESS_FS_REFER, root)
        added = _LIBC.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, everywhere, 0)
        if added == 0 and _LIBC.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
            # Asked of everyone without CAP_SYS_ADMIN, so that no program that gains rights is confined by its starter.
            _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            _LIBC.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(root)
        os.close(ruleset)


def _drop_capabilities() -> None:
    header = _CAPABILITY_HEADER.pack(_CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(_CAPABILITIES.size)
    if _LIBC.capget(header, held) != 0:
        return
    sets = list(_CAPABILITIES.unpack(held.raw))
    for capability in _DROPPED:
        half, bit = divmod(capability, 32)
        for number in range(3):
            sets[3 * half + number] &= ~(1 << bit)
    _LIBC.capset(header, _CAPABILITIES.pack(*sets))
