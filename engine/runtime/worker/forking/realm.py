"""A realm: the process namespace of one session's sandboxed processes, and how all of them are stopped.

Its first process is a zygote of its own. In it the kernel does what counting cannot do in time. It has no more
processes and threads than `most_tasks`, because process ids end there (`pid_max` belongs to a namespace since Linux
6.14). When its first process ends, for any reason, all others are killed, whatever they did to their limits, sessions
and signals. Its /proc shows no other process. The zygote forks twice, because a process namespace begins with the next
child of the process that requests it. A user other than root also needs a user namespace. If something is missing
(`begin` tells why), it works without: then the realm's zygote is an ordinary process, and processes are counted as
without a sandbox.

`Stillness` stops all processes of a realm for as long as the host wants, so that none changes a path meanwhile. Between
two steps of the host, a statement's process may exchange a directory for a link. If the kernel has no single step (an
editor writes a file by its path; a file is mounted before it gets its name), all of them are stopped first. The host
sends a socket, is told when the last thread rests, and lets them continue by closing it, as its own end does. Meanwhile
the zygote starts nothing: such requests wait. A realm that begins meanwhile is stopped from its beginning.

They are stopped as by a debugger (`ptrace`), because signals end a `SIGSTOP`: their timer, a change in a directory, or
another process can send `SIGCONT`. Processes that a statement stopped itself stay stopped. See ptrace(2),
"PTRACE_SEIZE". A thread that starts a program may share its memory with the child until that has its own (`vfork`), and
rests only then. So the child of a thread that does not rest is let go for a moment. A thread cannot be let go before it
rests either. One that rests too late is let go later (`free_late`), or it would stay stopped for good.

Must not know what runs in a realm, nor what the host does. Called by `zygote`.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from ...sandbox import mounts
from ...system import kernel
from ...system.descriptors import close_all_but
from ...system.own_process import (
    become_subreaper,
    become_unreadable,
    die_with_parent,
    seize,
    set_free,
    stop_of,
    take_precedence,
)
from ...system.process_table import pids, read, stat_of
from ...system.processes import ProcessHandle
from ...system.waiting import READABLE, Poller
from ..processes.memory import most_tasks
from .forked import fork

_NEWPID: Final = 0x20000000
_HAS_OWN_LIMIT: Final = (6, 14)
"""The version of Linux since which each process namespace has its own `pid_max`."""
_FIRST: Final = 1
"""The id of a namespace's first process."""
_RESERVED: Final = 300
"""The ids that the kernel skips when it starts again from the lowest."""
_PROC: Final = "/proc"
_FAILED: Final = 70
STAND_STILL: Final = b"S"
"""The record of the request to stop all processes; a socket comes with it."""
STILL, NOT_STILL = b"1", b"0"
_SECONDS: Final = 2.0
"""The longest wait. A thread may be in an uninterruptible system call, such as a wait for a disk."""
_SHARED_SECONDS: Final = 0.02
"""After this time, a thread that has not stopped may be waiting for a child."""
_PAUSE: Final = 0.001
"""Seconds between checks. They are needed because no call waits for threads that are not our children."""
_ENDED: Final = b"ZXx"
_HELD: Final = b"t"


class Begun(NamedTuple):
    """The process id of a realm's zygote, or 0. `missing` says why there is no namespace; empty if there is one."""

    pid: int
    missing: str


def begin(socket: int, become: Callable[[int, int], NoReturn], *, apart: bool) -> Begun:
    """Fork the zygote of a realm, which serves that socket; takes some milliseconds.

    Args:
        socket: a descriptor of a fork socket.
        become: serves the socket, in the realm. Its arguments are the socket, and a descriptor of the /proc outside the
            realm, or -1 without a namespace.
        apart: use a namespace. Without one it can fail only if there are too many processes.
    """
    reader, writer = os.pipe()
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
    """The middle process: request the namespaces, fork their first process, and end."""
    try:
        outside = -1
        if apart:
            outside = os.open(_PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            mounts.leave(_NEWPID)
        between = ProcessHandle(os.getpid())
        pid = os.fork()
        if pid == 0:
            # Wait for the end of the middle process, when its children get the zygote as parent. Its descriptors close
            # earlier: then the signal for a parent's death could still be for the death of the middle process.
            between.ended_within(None)
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
        with suppress(OSError):  # because nobody reads the rest
            os.write(writer, _phrase(error).encode())
    os._exit(_FAILED)


def _set_apart() -> None:
    """Give the namespace its own /proc, and a limit of process ids. Raises OSError."""
    mounts.follow_outside()
    kernel.mount("proc", _PROC, "proc", mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC, "")
    # The kernel applies this limit to each user namespace separately, except for root.
    if os.geteuid() != 0:
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = most_tasks() if hard == resource.RLIM_INFINITY else min(hard, most_tasks())
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    try:
        _limit_ids()
    except OSError:
        if os.geteuid() == 0:
            raise


def _limit_ids() -> None:
    """End the process ids of this namespace at the limit. Raises OSError.

    Older kernels have one limit for the machine. Root would lower it there for all its processes, until the next boot.
    """
    if os.getpid() != _FIRST or kernel.version() < _HAS_OWN_LIMIT:
        raise OSError(errno.EOPNOTSUPP, "a limit of processes for root needs Linux 6.14")
    _write("kernel/ns_last_pid", _RESERVED - 1)
    _write("kernel/pid_max", _RESERVED + most_tasks())


def _write(name: str, number: int) -> None:
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
        file.write(str(number))


def _phrase(error: BaseException) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def number_outside(pid: int, outside: int) -> int:
    """The outside id of a process of this namespace, from a descriptor of the outer /proc; `pid` if that is -1.

    Raises OSError if the process is gone.
    """
    if outside < 0:
        return pid
    with ProcessHandle(pid) as process:
        number = os.open(f"self/fdinfo/{process.fileno()}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=outside)
        with open(number, encoding="ascii") as info:
            return next(int(line.split()[1]) for line in info if line.startswith("Pid:"))


# --- stopping all processes -------------------------------------------------------------------------------------------


class Stillness:
    """The sockets that keep all processes stopped; `poll` watches them."""

    def __init__(self, poll: Poller) -> None:
        self._poll = poll
        self._wanted: dict[int, socket.socket] = {}
        self._held: dict[int, int] = {}
        """The stopped threads, each with the signal that it was about to get, or 0."""
        self._late: set[int] = set()
        """Threads that had not stopped when the others were released."""
        self._is_still = False

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def has(self, descriptor: int) -> bool:
        """Whether it is one of these sockets."""
        return descriptor in self._wanted

    def begin(self, descriptor: int) -> None:
        """Stop all processes, and report on that socket whether they have stopped."""
        wanted = socket.socket(fileno=descriptor)
        if not self._wanted:
            self._is_still = self._hold()
            if not self._is_still:
                self._let_go()
        self._wanted[wanted.fileno()] = wanted
        self._poll.register(wanted.fileno(), READABLE)
        with suppress(OSError):  # because the host may be gone, which its socket reports
            wanted.send(STILL if self._is_still else NOT_STILL)

    def end(self, descriptor: int) -> None:
        """Note that the host has closed its end; release all, unless another socket still keeps them stopped."""
        self._poll.unregister(descriptor)
        self._wanted.pop(descriptor).close()
        if not self._wanted:
            self._let_go()

    @property
    def has_late(self) -> bool:
        """Whether threads must still be released."""
        return bool(self._late)

    def free_late(self) -> None:
        """Release threads that have stopped late."""
        if self._late and not self._wanted:
            self._held = dict.fromkeys(self._late, 0)
            for thread in self._late:
                self._has_come_to_rest(thread)
            self._let_go()

    def _hold(self) -> bool:
        """Stop threads until a pass over all finds no running one, and none was created during the pass.

        Returns False if that does not succeed in time.

        A process that forks and exits all the time is in no list: it is gone when its threads are listed, and its child
        came after the list of processes.
        """
        deadline = time.monotonic() + _SECONDS
        self._held, self._late = dict.fromkeys(self._late, 0), set()
        for thread in self._held:
            self._has_come_to_rest(thread)
        while time.monotonic() < deadline:
            newest = _newest()
            running = [thread for thread in _threads() if thread not in self._held or not _is_at_rest(thread)]
            if not running and newest and newest == _newest():  # without /proc no process is visible
                return True
            for thread in running:
                if thread not in self._held and not _seize(thread):
                    return False
                self._held.setdefault(thread, 0)
            patience = time.monotonic() + _SHARED_SECONDS
            while not all(map(self._has_come_to_rest, running)):
                if time.monotonic() > deadline:
                    return False
                if time.monotonic() > patience:
                    self._let_children_go([thread for thread in running if not _is_at_rest(thread)])
                    break
                time.sleep(_PAUSE)
        return False

    def _let_children_go(self, waiting: Collection[int]) -> None:
        """Release children for a moment, because a waiting thread may need its child to get its own memory."""
        processes = {_process_of(thread) for thread in waiting}
        for thread in [each for each in self._held if each not in waiting and _parent(each) in processes]:
            with suppress(OSError):
                set_free(thread, self._held[thread])
                del self._held[thread]
        time.sleep(_PAUSE)

    def _has_come_to_rest(self, thread: int) -> bool:
        """Note the thread's stop, and the signal that the kernel was about to deliver, if any."""
        with suppress(ChildProcessError):
            stop = stop_of(thread)
            if stop is not None:
                event, self._held[thread] = stop
                if event:
                    self._held[thread] = 0
        return _is_at_rest(thread)

    def _let_go(self) -> None:
        self._late.difference_update(self._held)  # others that are late stay so
        for thread, pending in self._held.items():
            try:
                set_free(thread, pending)
            except OSError:
                if _state(thread) not in _ENDED:
                    self._late.add(thread)
        self._held.clear()


def _newest() -> bytes:
    """The id of the last process or thread created in this namespace; see proc_loadavg(5)."""
    return read("/proc/loadavg").rpartition(b" ")[2]


def _threads() -> list[int]:
    """All living threads of the realm, except the zygote's."""
    found: list[int] = []
    for pid in set(pids()) - {os.getpid()}:
        with suppress(OSError):
            found += map(int, os.listdir(f"/proc/{pid}/task"))
    return [thread for thread in found if _state(thread) not in _ENDED]


def _seize(thread: int) -> bool:
    """Start to stop the thread; return whether that worked, or the thread has ended."""
    try:
        seize(thread)
    except OSError:
        return _state(thread) in _ENDED
    return True


def _is_at_rest(thread: int) -> bool:
    return _state(thread) in _HELD + _ENDED


def _process_of(thread: int) -> int:
    """The process of a thread; 0 if it has ended."""
    lines = read(f"/proc/{thread}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Tgid:")), 0)


def _parent(thread: int) -> int:
    found = stat_of(thread)
    return -1 if found is None else found.parent


def _state(thread: int) -> bytes:
    found = stat_of(thread)
    return b"X" if found is None else found.state
