"""A realm: the process namespace of one session's sandboxed statements, with a zygote of its own as its first process.

The kernel does in it what counting cannot do in time. It has no more processes and threads than `most_tasks`, since
process ids end there (`pid_max` is one of each namespace since Linux 6.14). And when its first process ends, however
that ends, all others are killed, whatever they did to their limits, sessions and signals. Its /proc shows nobody else.

The zygote forks twice: a process namespace begins with the next child of whoever asked for one. A user who is not root
needs a user namespace as well. What cannot be had there (`begin` tells why) is done without: then the zygote of the
realm is an ordinary process, and processes are counted as those of statements without a sandbox are.

Must not know what runs in a realm. Called by `zygote`.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from ...sandbox import kernel, mounts
from ..processes.descriptors import close_all_but
from ..processes.memory import most_tasks
from ..processes.privileges import become_unreadable
from ..processes.system import become_subreaper, die_with_parent, take_precedence
from .forked import fork

_NEWPID: Final = 0x20000000
_RESERVED: Final = 300
"""Ids that the kernel gives once, and not again when it begins anew."""
_PROC: Final = "/proc"
_FAILED: Final = 70


class Begun(NamedTuple):
    """The process id of a realm's zygote, 0 for none; and why there is no namespace, in a phrase, empty where it is."""

    pid: int
    missing: str


def begin(socket: int, become: Callable[[int, int], NoReturn], *, apart: bool) -> Begun:
    """Forks the zygote of a realm, which serves that socket; takes some milliseconds.

    Args:
        socket: a descriptor of a fork socket.
        become: serves it, in the realm. Is given the socket, and a descriptor of the /proc around the realm, -1 where
            there is no namespace.
        apart: in a namespace. Without one it cannot fail but for a lack of processes.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        first = fork(lambda: _split(socket, writer, become, apart))
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return Begun(0, f"no process could be started: {error.strerror}")
    os.close(writer)
    with open(reader, "rb") as said:
        number, _, missing = said.read().decode(errors="replace").partition("\n")
    os.waitpid(first, 0)
    return Begun(int(number or 0), missing)


def _split(socket: int, writer: int, become: Callable[[int, int], NoReturn], apart: bool) -> NoReturn:
    """The process between: asks for the namespaces, forks the first process in them, and ends."""
    try:
        outside = -1
        if apart:
            outside = os.open(_PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            mounts.leave(_NEWPID)
        between = os.pidfd_open(os.getpid())
        pid = os.fork()
        if pid == 0:
            # Until its end, which is said when its children have the zygote for a parent: not that of its descriptors,
            # after which the signal for the end of a parent could still be that for this one.
            select.select([between], [], [])
            _begin(socket, outside, writer, become)
        os.write(writer, b"%d\n" % pid)
    except BaseException as error:
        os.write(writer, f"0\n{_phrase(error)}".encode())
    os._exit(0)


def _begin(socket: int, outside: int, writer: int, become: Callable[[int, int], NoReturn]) -> NoReturn:
    try:
        os.setsid()
        die_with_parent(signal.SIGKILL, 0)
        become_subreaper()
        take_precedence()
        if outside >= 0:
            _set_apart()
        become_unreadable()
        os.close(writer)
        close_all_but(*(each for each in (socket, outside) if each >= 0))
        become(socket, outside)
    except BaseException as error:
        with suppress(OSError):  # what comes after the last step is nobody's to know
            os.write(writer, _phrase(error).encode())
    os._exit(_FAILED)


def _set_apart() -> None:
    """Gives the namespace a /proc of its own, and an end of process ids. Raises OSError."""
    mounts.follow_outside()
    kernel.mount("proc", _PROC, "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC, "")
    # By which the kernel counts for each user namespace, but for root.
    if os.geteuid() != 0:
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = most_tasks() if hard == resource.RLIM_INFINITY else min(hard, most_tasks())
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    try:
        _write("kernel/ns_last_pid", _RESERVED - 1)
        _write("kernel/pid_max", _RESERVED + most_tasks())
    except OSError:
        if os.geteuid() == 0:
            raise


def _write(name: str, number: int) -> None:
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
        file.write(str(number))


def _phrase(error: BaseException) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def number_outside(pid: int, outside: int) -> int:
    """What others call a process of this namespace, by a descriptor of the /proc around it; `pid` where that is -1.

    Raises OSError where the process is gone.
    """
    if outside < 0:
        return pid
    pinned = os.pidfd_open(pid)
    try:
        with open(
            os.open(f"self/fdinfo/{pinned}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=outside), encoding="ascii"
        ) as info:
            return next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
    finally:
        os.close(pinned)
