"""The seccomp layer: a filter of system calls, for acts that have no path, and so no Landlock right.

A filter sees the number of a call and its arguments as numbers, never the memory behind them. So it can distinguish
kinds of sockets, and calls on the own process (id 0) from calls on others, but no address, file or process. Besides the
network it refuses ways around the other layers (io_uring, which has calls of its own; mounts and namespaces, in which
one is root; files by handle instead of by path), and what a program may do to other processes of its user without a
file (limits, priorities, keys, queues and shared memory by number, input for a terminal).

It is a program for the kernel's machine: load a word of the call's description, compare it, jump, return. Each row of
`_rules` becomes the comparison of one number and the few steps that decide about it, so a reader needs one row at a
time. The kernel remembers numbers that are allowed with all arguments, and does not run the filter for them again.

The numbers of system calls are from the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl, and
include/uapi/asm-generic/unistd.h, which aarch64 uses. Calls since Linux 5.1 have one number everywhere. Called by
`entering`, after no new privileges can be gained.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator, Mapping
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from ..system import kernel

_BOTH: Final[Mapping[str, int]] = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "mount_setattr": 442,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}
X86_64: Final[Mapping[str, int]] = {
    **_BOTH,
    "open": 2,
    "ioctl": 16,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "socket": 41,
    "socketpair": 53,
    "clone": 56,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "creat": 85,
    "chmod": 90,
    "fchmod": 91,
    "mknod": 133,
    "setpriority": 141,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "pivot_root": 155,
    "setrlimit": 160,
    "chroot": 161,
    "mount": 165,
    "umount2": 166,
    "sched_setaffinity": 203,
    "semtimedop": 220,
    "mq_open": 240,
    "mq_unlink": 241,
    "mq_timedsend": 242,
    "mq_timedreceive": 243,
    "mq_notify": 244,
    "mq_getsetattr": 245,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "ioprio_set": 251,
    "openat": 257,
    "mknodat": 259,
    "fchmodat": 268,
    "unshare": 272,
    "perf_event_open": 298,
    "prlimit64": 302,
    "open_by_handle_at": 304,
    "setns": 308,
    "sched_setattr": 314,
    "seccomp": 317,
    "bpf": 321,
    "userfaultfd": 323,
}
AARCH64: Final[Mapping[str, int]] = {
    **_BOTH,
    "ioctl": 29,
    "ioprio_set": 30,
    "mknodat": 33,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "fchmod": 52,
    "fchmodat": 53,
    "openat": 56,
    "unshare": 97,
    "sched_setparam": 118,
    "sched_setscheduler": 119,
    "sched_setaffinity": 122,
    "setpriority": 140,
    "setrlimit": 164,
    "mq_open": 180,
    "mq_unlink": 181,
    "mq_timedsend": 182,
    "mq_timedreceive": 183,
    "mq_notify": 184,
    "mq_getsetattr": 185,
    "msgget": 186,
    "msgctl": 187,
    "msgrcv": 188,
    "msgsnd": 189,
    "semget": 190,
    "semctl": 191,
    "semtimedop": 192,
    "semop": 193,
    "shmget": 194,
    "shmctl": 195,
    "shmat": 196,
    "socket": 198,
    "socketpair": 199,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "clone": 220,
    "perf_event_open": 241,
    "prlimit64": 261,
    "open_by_handle_at": 265,
    "setns": 268,
    "sched_setattr": 274,
    "seccomp": 277,
    "bpf": 280,
    "userfaultfd": 282,
}
_SET_MODE_FILTER: Final = 1
_GET_ACTION_AVAIL: Final = 2
_SPEC_ALLOW: Final = 1 << 2
"""Without it, kernels before 5.16 slow the whole process down, against an attack that does not concern this filter."""
ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
_WORD: Final = 4
_X32: Final = 0x40000000
"""A bit in the number of a call: 32-bit pointers, with other numbers for some calls."""
_STEP: Final = Struct("=HBBI")
"""The operation, the steps to jump if the comparison is true and if it is false, and the value."""
_PROGRAM: Final = Struct("@HP")
_NEW_NAMESPACES: Final = 0x7E020000
"""The flags of namespaces: mounts, cgroups, host names, IPC, users, process ids and networks."""
_NEW_TIME: Final = 0x80
"""For `unshare` alone; `clone` has a signal in these bits."""
_OTHER_TYPES: Final = 0xC
"""Bits of a socket's type that streams, datagrams and raw sockets do not have. Raw ones need a capability."""
_NETLINK: Final = 16
"""AF_NETLINK, which Python names on Linux alone."""
_NETLINK_ROUTE: Final = 0
_RTTIME: Final = 15
"""RLIMIT_RTTIME."""
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_OF_PROCESS: Final = 0
_OF_GROUP: Final = 1
REFUSED: Final = (
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "setns"),
    "open_by_handle_at",
    *("add_key", "request_key", "keyctl"),
    *("bpf", "perf_event_open", "userfaultfd"),
    # A queue may also be opened as a file below /dev/mqueue.
    *("mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl"),
    *("shmget", "shmat", "shmctl"),
)
"""Refused with EPERM for any arguments: mounts and namespaces, files by handle, keys, inspection of the kernel, and
objects that processes of one user share by number."""
ABSENT: Final = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2")
"""Refused with ENOSYS, as if the kernel lacked them, because programs have a fallback then. (The arguments of clone3
and openat2 are behind a pointer.)"""
_SET_ID: Final = 0o6000
"""Set-user-ID and set-group-ID. Such a file would give the rights of its owner to other users (Nix refuses it too)."""
_MAKES: Final = 0o20000100
"""The flags of `open` with which it has a mode: O_CREAT and the one of O_TMPFILE."""
_OPENS: Final[Mapping[str, int]] = {"openat": 2, "open": 1}
"""The argument with the flags; the mode is the next one."""
_MODES: Final[Mapping[str, int]] = {
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mknodat": 2,
    "chmod": 1,
    "creat": 1,
    "mknod": 1,
}
"""The argument with the mode."""
_OF_X86: Final = ("open", "creat", "chmod", "mknod")
"""Calls that newer architectures lack."""
Step = tuple[int, int, int, int]


class Architecture(NamedTuple):
    """The facts about an architecture that the filter needs. `mark` is the kernel's AUDIT_ARCH_*."""

    mark: int
    numbers: Mapping[str, int]


ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "x86_64": Architecture(0xC000003E, X86_64),
    "aarch64": Architecture(0xC00000B7, AARCH64),
}
"""By their names in `os.uname`."""


@cache
def missing() -> str:
    """Why this layer is unavailable, as a phrase; empty if it is available."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return f"there is no system call filter for {machine}, only for {' and '.join(ARCHITECTURES)}"
    try:
        action = ctypes.create_string_buffer(ALLOW.to_bytes(_WORD, "little"), _WORD)
        kernel.system_call(ARCHITECTURES[machine].numbers["seccomp"], _GET_ACTION_AVAIL, 0, action)
    except OSError as error:
        return f"this kernel cannot filter system calls ({error.strerror})"
    return ""


def enter(*, network: bool) -> None:
    """Let the kernel filter the calls of this process and its descendants. Raises OSError."""
    if lack := missing():
        raise OSError(lack)
    code = _code(network=network)
    steps = ctypes.create_string_buffer(code, len(code))
    description = _PROGRAM.pack(len(code) // _STEP.size, ctypes.addressof(steps))
    number = ARCHITECTURES[os.uname().machine].numbers["seccomp"]
    kernel.system_call(number, _SET_MODE_FILTER, _SPEC_ALLOW, description)


def prepare(*, network: bool) -> None:
    """Make the filter in advance, for forked processes."""
    if not missing():
        _code(network=network)


@cache
def _code(*, network: bool) -> bytes:
    return b"".join(_STEP.pack(*step) for step in program(ARCHITECTURES[os.uname().machine], network=network))


def program(architecture: Architecture, *, network: bool) -> list[Step]:
    """The filter for an architecture."""
    steps: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture.mark),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture.numbers is X86_64:
        steps += (_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)
    for name, decision in _rules(network=network):
        if name in _OF_X86 and architecture.numbers is not X86_64:
            continue
        steps += (_EQUAL, 0, len(decision), architecture.numbers[name]), *decision
    return [*steps, (_RETURN, 0, 0, ALLOW)]


def _rules(*, network: bool) -> Iterator[tuple[str, list[Step]]]:
    """The steps that decide about each call, by its name: the frequent ones first."""
    for name, flags in _OPENS.items():
        yield name, [_load(flags), (_ANY_BIT, 1, 0, _MAKES), (_RETURN, 0, 0, ALLOW), *_unless_bits(flags + 1, _SET_ID)]
    for name, mode in _MODES.items():
        yield name, _unless_bits(mode, _SET_ID)
    yield "socketpair", _if_argument(0, socket.AF_UNIX, otherwise=errno.EACCES)
    yield "socket", [*_allow_if(0, socket.AF_UNIX), *(_of_network() if network else ()), _refuse(errno.EACCES)]
    for name in REFUSED:
        yield name, [_refuse(errno.EPERM)]
    for name in ABSENT:
        yield name, [_refuse(errno.ENOSYS)]
    yield "clone", _unless_bits(0, _NEW_NAMESPACES)
    yield "unshare", _unless_bits(0, _NEW_NAMESPACES | _NEW_TIME)
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        yield name, _if_argument(0, 0)
    # Reading limits is harmless; then the argument with new ones is null. Brands of statements stay (`system.brands`).
    reading = _if_zero(2)
    yield "prlimit64", [_load(1), (_EQUAL, 0, len(reading), _RTTIME), *reading, *_allow_if(0, 0), *reading]
    yield "setrlimit", [*_refuse_if(0, _RTTIME), (_RETURN, 0, 0, ALLOW)]
    yield "setpriority", [*_refuse_unless(0, _OF_PROCESS, _OF_GROUP), *_if_argument(1, 0)]
    yield "ioprio_set", [*_refuse_unless(0, _OF_PROCESS + 1, _OF_GROUP + 1), *_if_argument(1, 0)]
    yield "ioctl", [*_refuse_if(1, _TIOCSTI), *_refuse_if(1, _TIOCLINUX), (_RETURN, 0, 0, ALLOW)]


def _of_network() -> list[Step]:
    """Allow TCP, UDP, and the netlink protocol that lists the machine's addresses; name lookups need the last two.

    Other protocols fail like those that the kernel lacks, because programs have a fallback for that.
    """
    of_type = [_load(1), (_ANY_BIT, 0, 1, _OTHER_TYPES), _refuse(errno.EACCES)]
    protocol = _if_argument(2, 0, socket.IPPROTO_TCP, socket.IPPROTO_UDP, otherwise=errno.EPROTONOSUPPORT)
    inet = [*of_type, *protocol]
    route = _if_argument(2, _NETLINK_ROUTE, otherwise=errno.EPROTONOSUPPORT)
    return [
        _load(0),
        (_EQUAL, 0, len(route), _NETLINK),
        *route,
        _load(0),
        (_EQUAL, 1, 0, socket.AF_INET),
        (_EQUAL, 0, len(inet), socket.AF_INET6),
        *inet,
    ]


def _refuse(number: int) -> Step:
    return _RETURN, 0, 0, _ERRNO | number


def _load(argument: int, *, high: bool = False) -> Step:
    """Load half of an argument. Families, ids and commands have 32 bits, and the kernel ignores the rest."""
    return _LOAD, 0, 0, _ARGUMENTS + 2 * _WORD * argument + _WORD * high


def _allow_if(argument: int, value: int) -> list[Step]:
    return [_load(argument), (_EQUAL, 0, 1, value), (_RETURN, 0, 0, ALLOW)]


def _refuse_if(argument: int, value: int) -> list[Step]:
    return [_load(argument), (_EQUAL, 0, 1, value), _refuse(errno.EPERM)]


def _refuse_unless(argument: int, one: int, other: int) -> list[Step]:
    return [_load(argument), (_EQUAL, 2, 0, one), (_EQUAL, 1, 0, other), _refuse(errno.EPERM)]


def _if_argument(argument: int, *values: int, otherwise: int = errno.EPERM) -> list[Step]:
    allowed = [each for value in values for each in _allow_if(argument, value)]
    return [*allowed, _refuse(otherwise)]


def _if_zero(argument: int) -> list[Step]:
    """Allow the call if all 64 bits are 0, as in a null pointer."""
    low = [_load(argument), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM)]
    return [*low, _load(argument, high=True), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM), (_RETURN, 0, 0, ALLOW)]


def _unless_bits(argument: int, bits: int) -> list[Step]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _refuse(errno.EPERM), (_RETURN, 0, 0, ALLOW)]
