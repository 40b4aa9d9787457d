"""Has all processes of a realm stand still for as long as the host wants, so that none changes a path meanwhile.

Between two steps of the host a process of a statement may exchange a directory for a link. Where the kernel offers no
single step (a user's editor writes a file by its path; a file is mounted before it gets its name) all of them are
stopped first. The host asks with a socket, is told when the last thread has come to rest, and has them go on by closing
it, which its own end does as well. Those that a statement had stopped itself stay so.

Must not know what the host does. Used by `zygote`, in a realm.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Final

from ..processes.proc import pids, stat_of

STAND_STILL: Final = b"S"
"""The record of the request, which comes with the socket."""
STILL, NOT_STILL = b"1", b"0"
_SECONDS: Final = 2.0
"""A thread may be in the middle of a system call that nothing interrupts, such as one that waits for a disk."""
_PAUSE: Final = 0.001
_AT_REST: Final = b"TtZXx"


class Stillness:
    """Who wants it at present; sockets are watched by `poll`."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._wanted: dict[int, socket.socket] = {}
        self._were_stopped: set[int] = set()
        self._is_still = False

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def has(self, descriptor: int) -> bool:
        """Whether it is one of its sockets."""
        return descriptor in self._wanted

    def begin(self, descriptor: int) -> None:
        """Stops all, and says on that socket whether they stand still."""
        wanted = socket.socket(fileno=descriptor)
        if not self._wanted:
            self._is_still = self._stop()
        self._wanted[wanted.fileno()] = wanted
        self._poll.register(wanted.fileno(), select.EPOLLIN)
        with suppress(OSError):  # of a host that has gone, whose socket says so
            wanted.send(STILL if self._is_still else NOT_STILL)

    def end(self, descriptor: int) -> None:
        """The host has closed its end: all go on, unless somebody else wants them still."""
        self._poll.unregister(descriptor)
        self._wanted.pop(descriptor).close()
        if not self._wanted:
            for pid in set(pids()) - {os.getpid()} - self._were_stopped:
                with suppress(OSError):
                    os.kill(pid, signal.SIGCONT)

    def _stop(self) -> bool:
        self._were_stopped = {pid for pid in pids() if (found := stat_of(pid)) is not None and found.state == b"T"}
        with suppress(ProcessLookupError):  # there is nobody else
            os.kill(-1, signal.SIGSTOP)
        deadline = time.monotonic() + _SECONDS
        while not all(map(_is_at_rest, set(pids()) - {os.getpid()})):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return True


def _is_at_rest(pid: int) -> bool:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    states = (stat_of(f"{pid}/task/{thread}") for thread in threads)
    return all(found is None or found.state in _AT_REST for found in states)
