"""What the filter of system calls decides, on both architectures, by running its steps as the kernel does."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from engine.runtime.sandbox.seccomp import ABSENT, ALLOW, ARCHITECTURES, KILL, REFUSED, Architecture, Step, program

I386 = 0x40000003
NEW_USER, NEW_TIME, THREAD = 0x10000000, 0x80, 0x3D0F00
STREAM, MPTCP, UDP_LITE, AUDIT = socket.SOCK_STREAM, 262, 136, 9
OPEN, SET_LIMIT, HIGH = 257, 0x7FFF1234, 1 << 40

EPERM = errno.EPERM
SET_ID = (0o4755, 0o2755, 0o106755)
OF_X86 = {"open", "creat", "chmod", "mknod"}

VERDICTS: list[tuple[str, tuple[int, ...], int, int]] = [
    *((name, (0, 0, 0), errno.EPERM, errno.EPERM) for name in REFUSED),
    *((name, (0, 0, 0), errno.ENOSYS, errno.ENOSYS) for name in ABSENT),
    ("socket", (socket.AF_UNIX,), 0, 0),
    ("socketpair", (socket.AF_UNIX,), 0, 0),
    ("socket", (socket.AF_UNIX + HIGH,), 0, 0),
    ("socketpair", (socket.AF_INET, STREAM), errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_INET, STREAM), errno.EACCES, 0),
    ("socket", (socket.AF_INET, STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 6), errno.EACCES, 0),
    ("socket", (socket.AF_INET6, socket.SOCK_DGRAM, 17), errno.EACCES, 0),
    ("socket", (socket.AF_INET + HIGH, STREAM), errno.EACCES, 0),
    ("socket", (socket.AF_INET, STREAM, MPTCP), errno.EACCES, errno.EPROTONOSUPPORT),
    ("socket", (socket.AF_INET6, socket.SOCK_DGRAM, UDP_LITE), errno.EACCES, errno.EPROTONOSUPPORT),
    ("socket", (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP), errno.EACCES, errno.EPROTONOSUPPORT),
    ("socket", (socket.AF_INET, socket.SOCK_SEQPACKET), errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_NETLINK, socket.SOCK_RAW), errno.EACCES, 0),
    ("socket", (socket.AF_NETLINK, socket.SOCK_RAW, AUDIT), errno.EACCES, errno.EPROTONOSUPPORT),
    ("socket", (socket.AF_PACKET,), errno.EACCES, errno.EACCES),
    ("socket", (socket.AF_VSOCK,), errno.EACCES, errno.EACCES),
    ("clone", (THREAD,), 0, 0),
    ("clone", (NEW_TIME,), 0, 0),
    ("clone", (THREAD | NEW_USER,), errno.EPERM, errno.EPERM),
    ("unshare", (0x400,), 0, 0),
    ("unshare", (NEW_USER,), errno.EPERM, errno.EPERM),
    ("unshare", (NEW_TIME,), errno.EPERM, errno.EPERM),
    ("sched_setaffinity", (0, 8, 1), 0, 0),
    ("sched_setaffinity", (1, 8, 1), errno.EPERM, errno.EPERM),
    ("sched_setscheduler", (2, 0, 0), errno.EPERM, errno.EPERM),
    ("sched_setattr", (2, 0, 0), errno.EPERM, errno.EPERM),
    ("sched_setparam", (2, 0, 0), errno.EPERM, errno.EPERM),
    ("prlimit64", (0, 7, SET_LIMIT), 0, 0),
    ("prlimit64", (1, 7, 0), 0, 0),
    ("prlimit64", (0, 15, 0), 0, 0),
    ("prlimit64", (0, 15, SET_LIMIT), EPERM, EPERM),
    ("setrlimit", (7, SET_LIMIT), 0, 0),
    ("setrlimit", (15, SET_LIMIT), EPERM, EPERM),
    ("prlimit64", (1, 7, SET_LIMIT), errno.EPERM, errno.EPERM),
    ("prlimit64", (1, 7, HIGH), errno.EPERM, errno.EPERM),
    ("setpriority", (0, 0, 5), 0, 0),
    ("setpriority", (1, 0, 5), 0, 0),
    ("setpriority", (2, 0, 5), errno.EPERM, errno.EPERM),
    ("setpriority", (0, 7, 5), errno.EPERM, errno.EPERM),
    ("ioprio_set", (1, 0, 5), 0, 0),
    ("ioprio_set", (2, 0, 5), 0, 0),
    ("ioprio_set", (3, 0, 5), errno.EPERM, errno.EPERM),
    ("ioprio_set", (1, 7, 5), errno.EPERM, errno.EPERM),
    *((name, (0, 0, 0o100644, 0), 0, 0) for name in ("mknodat", "fchmodat", "fchmodat2")),
    *((name, (0, 0, mode, 0), EPERM, EPERM) for name in ("mknodat", "fchmodat", "fchmodat2") for mode in SET_ID),
    *((name, (0, 0o755, 0), 0, 0) for name in ("chmod", "fchmod", "creat", "mknod")),
    *((name, (0, mode, 0), EPERM, EPERM) for name in ("chmod", "fchmod", "creat", "mknod") for mode in SET_ID),
    ("open", (0, os.O_RDONLY, 0o4755), 0, 0),
    ("open", (0, os.O_CREAT | os.O_WRONLY, 0o1755), 0, 0),
    ("open", (0, os.O_CREAT | os.O_WRONLY, 0o4755), EPERM, EPERM),
    ("openat", (0, 0, os.O_RDONLY, 0o6755), 0, 0),
    ("openat", (0, 0, os.O_CREAT, 0o644), 0, 0),
    ("openat", (0, 0, os.O_CREAT, 0o2755), EPERM, EPERM),
    ("openat", (0, 0, os.O_TMPFILE | os.O_RDWR, 0o4755), EPERM, EPERM),
    ("ioctl", (0, 0x5401), 0, 0),
    ("ioctl", (0, 0x5412), errno.EPERM, errno.EPERM),
    ("ioctl", (0, 0x541C), errno.EPERM, errno.EPERM),
]
"""A call with the beginning of its arguments, and the error without the network and with it; 0 where it is allowed."""


def decided(steps: list[Step], mark: int, number: int, *arguments: int) -> int:
    """What the kernel's machine returns for a call: docs of the kernel, networking/filter."""
    words = [number, mark, 0, 0]
    for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]:
        words += [argument & 0xFFFFFFFF, argument >> 32]
    at = loaded = 0
    while True:
        code, if_true, if_false, value = steps[at]
        match code:
            case 0x20:
                loaded = words[value // 4]
                jump = 0
            case 0x15:
                jump = if_true if loaded == value else if_false
            case 0x35:
                jump = if_true if loaded >= value else if_false
            case 0x45:
                jump = if_true if loaded & value else if_false
            case _:
                assert code == 0x06
                return value
        at += 1 + jump


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize("network", [False, True], ids=["network off", "network on"])
def test_each_call_is_decided_about_as_the_table_says(architecture: Architecture, network: bool) -> None:
    steps = program(architecture, network=network)
    for name, arguments, off, on in VERDICTS:
        if name in OF_X86 and architecture is not ARCHITECTURES["x86_64"]:
            continue
        error = on if network else off
        found = decided(steps, architecture.mark, architecture.numbers[name], *arguments)
        assert found == (0x00050000 | error if error else ALLOW), (name, arguments)


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_unnamed_calls_are_allowed_and_foreign_architectures_killed(architecture: Architecture) -> None:
    steps = program(architecture, network=False)
    named = set(architecture.numbers.values())
    assert {decided(steps, architecture.mark, each) for each in range(500) if each not in named} == {ALLOW}
    assert decided(steps, I386, OPEN) == KILL


def test_calls_with_pointers_of_32_bits_are_absent() -> None:
    architecture = ARCHITECTURES["x86_64"]
    steps = program(architecture, network=True)
    assert decided(steps, architecture.mark, 0x40000000 | 1) == 0x00050000 | errno.ENOSYS


def test_every_named_call_but_the_filters_own_has_a_verdict() -> None:
    for architecture in ARCHITECTURES.values():
        lacking = set() if architecture is ARCHITECTURES["x86_64"] else OF_X86
        assert {name for name, *_ in VERDICTS} - lacking == set(architecture.numbers) - {"seccomp"}


def test_the_architectures_are_named_as_python_names_them() -> None:
    assert os.uname().machine in ARCHITECTURES
