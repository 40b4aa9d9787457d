"""Holds all processes of a realm still for as long as the host wants, so that none changes a path meanwhile.

Between two steps of the host a process of a statement may exchange a directory for a link. Where the kernel offers no
single step (a user's editor writes a file by its path; a file is mounted before it gets its name) all of them are held
first. The host asks with a socket, is told when the last thread has come to rest, and lets them go on by closing it,
which its own end does as well.

They are held as a debugger holds them (`ptrace`), because a signal would wake them from `SIGSTOP`: their own timer, a
change in a directory, or another process can send `SIGCONT`. What a statement had stopped itself stays stopped. See
ptrace(2), "PTRACE_SEIZE".

Must not know what the host does. Used by `zygote`, in a realm.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from typing import Final

from ..processes.proc import pids, read, stat_of
from ..processes.system import seize, set_free

STAND_STILL: Final = b"S"
"""The record of the request, which comes with the socket."""
STILL, NOT_STILL = b"1", b"0"
_SECONDS: Final = 2.0
"""A thread may be in the middle of a system call that nothing interrupts, such as one that waits for a disk."""
_PAUSE: Final = 0.001
"""Between two looks: no call waits for the stop of several threads that are nobody's children."""
_ENDED: Final = b"ZXx"
_HELD: Final = b"t"
_ANY_THREAD: Final = 0x40000000
"""__WALL of waitid(2): threads, too."""


class Stillness:
    """Who wants it at present; sockets are watched by `poll`."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._wanted: dict[int, socket.socket] = {}
        self._held: dict[int, int] = {}
        """The threads that are held, each with the signal that it was about to get, or 0."""
        self._is_still = False

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def has(self, descriptor: int) -> bool:
        """Whether it is one of its sockets."""
        return descriptor in self._wanted

    def begin(self, descriptor: int) -> None:
        """Holds all, and says on that socket whether they stand still."""
        wanted = socket.socket(fileno=descriptor)
        if not self._wanted:
            self._is_still = self._hold()
            if not self._is_still:
                self._let_go()
        self._wanted[wanted.fileno()] = wanted
        self._poll.register(wanted.fileno(), select.EPOLLIN)
        with suppress(OSError):  # of a host that has gone, whose socket says so
            wanted.send(STILL if self._is_still else NOT_STILL)

    def end(self, descriptor: int) -> None:
        """The host has closed its end: all go on, unless somebody else wants them still."""
        self._poll.unregister(descriptor)
        self._wanted.pop(descriptor).close()
        if not self._wanted:
            self._let_go()

    def _hold(self) -> bool:
        """Whether every thread is held that a look at all of them finds, while none was made.

        A process that forks and exits all the time is in no list: it has gone when its threads are listed, and its
        child came too late for the list of processes.
        """
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            newest = _newest()
            running = [thread for thread in _threads() if thread not in self._held or not _is_at_rest(thread)]
            if not running and newest and newest == _newest():  # without /proc nobody is seen
                return True
            for thread in running:
                if thread not in self._held and not _seize(thread):
                    return False
                self._held.setdefault(thread, 0)
            while not all(map(self._has_come_to_rest, running)):
                if time.monotonic() > deadline:
                    return False
                time.sleep(_PAUSE)
        return False

    def _has_come_to_rest(self, thread: int) -> bool:
        """Takes note of the thread's stop, with which the kernel may have been about to give it a signal."""
        with suppress(ChildProcessError):
            stop = os.waitid(os.P_PID, thread, os.WSTOPPED | os.WNOHANG | _ANY_THREAD)
            if stop is not None:
                event, self._held[thread] = stop.si_status >> 8, stop.si_status & 0x7F
                if event:
                    self._held[thread] = 0
        return _is_at_rest(thread)

    def _let_go(self) -> None:
        for thread, signal in self._held.items():
            with suppress(OSError):  # ended meanwhile
                set_free(thread, signal)
        self._held.clear()


def _newest() -> bytes:
    """The number of the last process or thread that was made in this namespace; see proc_loadavg(5)."""
    return read("/proc/loadavg").rpartition(b" ")[2]


def _threads() -> list[int]:
    """All threads of the realm that have not ended, but for the zygote's."""
    found: list[int] = []
    for pid in set(pids()) - {os.getpid()}:
        with suppress(OSError):
            found += map(int, os.listdir(f"/proc/{pid}/task"))
    return [thread for thread in found if _state(thread) not in _ENDED]


def _seize(thread: int) -> bool:
    """Whether the thread is held, or has ended."""
    try:
        seize(thread)
    except OSError:
        return _state(thread) in _ENDED
    return True


def _is_at_rest(thread: int) -> bool:
    return _state(thread) in _HELD + _ENDED


def _state(thread: int) -> bytes:
    found = stat_of(thread)
    return b"X" if found is None else found.state
