"""The host's handle on its zygote: started before anything else is, asked for forks, ended with the host.

Imports the standard library alone and never `subprocess`, because `Zygote.spawn` belongs at the very start of the
program, in parallel with its imports. Must not know what workers do. Spawned by whoever starts a host, and by `doctor`;
`connection` asks it for workers.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from typing import Any, Final
from weakref import WeakSet

from ..core.errors import EnvironmentUnavailableError
from .worker.processes.brands import Brand, brand_of, own_brand, stat_of

_BOOT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker", "boot.py")
_INHERITED: Final = 3
"""The zygote's descriptor of the fork socket."""
_LEAVE_SECONDS: Final = 2.0
_KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH",)
"""What an interpreter may need to start; nothing else of the host's environment can be read in a worker."""
_VARIABLES: Final = {
    "PYTHONHASHSEED": "0",
    # The ranks of tokens are 40 MB that nobody writes to. In pages of 2 MB instead of 4 KB they are loaded with a third
    # of the page faults, and a fork, which lists all pages of its process anew, takes a third of the time.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class Zygote:
    """One zygote process, replaced by a new one when it is found dead. Not for use from several threads at once."""

    def __init__(self) -> None:
        self._pid = 0
        self._process = -1
        self._forks: socket.socket | None = None
        self._lives = False
        self._killed = False
        self._started = 0
        self.brand: Brand | None = None
        self.realms: WeakSet[Any] = WeakSet()
        """All that were begun below it and may live."""
        self.stillnesses: list[list[socket.socket]] = []
        """The sockets by which realms are held now, one list for each act that wants it."""

    @classmethod
    def spawn(cls) -> Zygote:
        """Starts the process and returns at once, about a millisecond later. Call it in the main thread.

        Raises:
            EnvironmentUnavailableError: no process could be started.
        """
        zygote = cls()
        zygote.ensure()
        return zygote

    @property
    def pid(self) -> int:
        """The process id, 0 before the start and after `close`."""
        return self._pid

    @property
    def alive(self) -> bool:
        # One that was killed forks nobody any more, though its end may take its time.
        return self._process >= 0 and not self._killed and not self._ended_within(0)

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it (SIGSTOP), so that it serves nobody for as long as they like."""
        found = stat_of(self._pid) if self.alive else None
        return found is not None and found.state == b"T"

    def _ended_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def ensure(self) -> None:
        """Starts a new process where there is none, or none any more. Raises EnvironmentUnavailableError."""
        if self.alive:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._start(theirs)
        except OSError as error:
            ours.close()
            raise EnvironmentUnavailableError(f"the worker processes' parent could not be started: {error}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._forks = ours

    def _start(self, theirs: socket.socket) -> None:
        # The parent-death signal is tied to the thread that spawns; only the main one lives as long as the process.
        with_thread = threading.current_thread() is threading.main_thread()
        command = (sys.executable, "-s", "-P", "-X", "utf8", _BOOT)
        self._started += 1
        brand = own_brand(self._started)
        arguments = (str(_INHERITED), *map(str, brand), "1" if with_thread else "0")
        variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self._pid = os.posix_spawn(
            sys.executable,
            [*command, *arguments],
            {**variables, **_VARIABLES},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), _INHERITED),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD],
        )
        self._process = os.pidfd_open(self._pid)
        self.brand = brand
        self._lives = False
        self._killed = False

    async def ready(self) -> None:
        """Returns when fork requests are served without delay; for measuring and for `doctor`, nobody has to wait."""
        import anyio  # only now, because this module is imported at the very start and anyio takes its time

        self.warm_up()
        while self._forks is not None and not self._lives:
            await anyio.wait_readable(self._forks)
            record = self._forks.recv(1)
            if not record:
                raise EnvironmentUnavailableError("the worker processes' parent ended while it was starting")
            self._lives = record == b"R"

    def warm_up(self) -> None:
        """Has the process load what workers need, some 200 ms of another core; the first fork would otherwise wait."""
        if self._forks is not None:
            # A process that is gone is replaced when a worker is needed.
            with contextlib.suppress(OSError):
                self._forks.send(b"W")

    def fork(self, descriptors: list[int]) -> None:
        """Hands over descriptors: those of a process to be, as `worker.forking.zygote` has them, or of a copy of one.

        Raises:
            EnvironmentUnavailableError: the zygote cannot take them.
        """
        if self._forks is None:
            raise EnvironmentUnavailableError("the worker processes' parent is closed")
        try:
            socket.send_fds(self._forks, [b"F"], descriptors)
        except OSError as error:
            raise EnvironmentUnavailableError(f"the worker processes' parent takes no request: {error}") from error

    def ask_outlines(self) -> socket.socket:
        """A socket on which outlines can be asked for (`worker.outlines`), for as long as this process lives.

        Raises:
            EnvironmentUnavailableError: the zygote cannot take it.
            OSError: there are no sockets.
        """
        self.ensure()
        if self._forks is None:
            raise EnvironmentUnavailableError("the worker processes' parent is closed")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._forks, [b"O"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise EnvironmentUnavailableError(f"the worker processes' parent is busy: {error}") from error
        return ours

    def begin_realm(self, forks: int) -> None:
        """Hands over the descriptor of a fork socket, which the zygote of a realm then serves (`worker.forking.realm`).

        Raises:
            EnvironmentUnavailableError: the zygote cannot take it.
        """
        if self._forks is None:
            raise EnvironmentUnavailableError("the worker processes' parent is closed")
        try:
            socket.send_fds(self._forks, [b"N"], [forks])
        except OSError as error:
            raise EnvironmentUnavailableError(f"the worker processes' parent takes no request: {error}") from error

    def sweep(self, brand: object) -> None:
        """Ends what the zygote with that brand left behind, once it is dead; waits shortly for its death.

        Does nothing for an earlier zygote: its successor was started after a sweep.
        """
        # A dying process loses its sockets a moment before it counts as dead.
        if self.brand is not None and brand == self.brand and self._process >= 0 and self._ended_within(_LEAVE_SECONDS):
            from .worker.processes.ending import end_branded  # only now, because starting does not need it

            end_branded(self.brand)

    def kill_worker(self, pid: int, brand: object) -> bool:
        """Kills one worker of the process that has this brand, past it; whether it was there to be killed.

        What the worker started ends when the process, which becomes its parent, comes to it.
        """
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                found = stat_of(pid)
                # An id that was given again meanwhile is another's.
                if found is not None and found.parent == self._pid and brand_of(pid) == brand == self.brand:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    return True
            finally:
                os.close(descriptor)
        return False

    def kill(self) -> None:
        """Ends the process the hard way, for when it does not answer; its workers go with it."""
        if self.alive:
            self._killed = True
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
            self._ended_within(_LEAVE_SECONDS)
        self.sweep(self.brand)

    def close(self) -> None:
        """Ends the process with all its descendants, within two seconds; may be called again at any time."""
        if self._forks is not None:
            self._forks.close()
            self._forks = None
        if self._process < 0:
            return
        if not self._ended_within(_LEAVE_SECONDS):
            self.kill()
        self.sweep(self.brand)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._process)
        self._process, self._pid = -1, 0
