"""The host's handle on its zygote: starts it before anything else, requests forks, and ends it with the host.

Imports the standard library alone and never `subprocess`, because `Zygote.spawn` runs first, in parallel with the
program's imports. Must not know what workers do. Spawned by every program that starts a host, and by `doctor`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import Any, Final
from weakref import WeakSet

from ..core.errors import EnvironmentUnavailableError
from ..core.import_path import own_import_path
from .system import passing
from .system.brands import Brand, brand_of, own_brand
from .system.process_table import stat_of
from .system.processes import ProcessHandle

_BOOT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker", "boot.py")
_INHERITED: Final = 3
"""The zygote's descriptor of the fork socket."""
_LEAVE_SECONDS: Final = 2.0
KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH",)
"""Variables that an interpreter may need to start. Workers cannot read the rest of the host's environment."""
_AGENT: Final = "SSH_AUTH_SOCK"
"""The path of a socket that the sandbox covers (`sandbox.sockets`). Workers and programs do not get the variable."""
_VARIABLES: Final = {
    "PYTHONHASHSEED": "0",
    # The ranks of tokens are 40 MB of constant data. In pages of 2 MB instead of 4 KB, loading them causes a third of
    # the page faults, and a fork, which copies the list of pages, takes a third of the time.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


class Zygote:
    """One zygote process, replaced by a new one if it was found dead. Not for several threads at once."""

    def __init__(self) -> None:
        self._pid = 0
        self._process: ProcessHandle | None = None
        self._forks: socket.socket | None = None
        self._lives = False
        self._killed = False
        self._started = 0
        self.brand: Brand | None = None
        self.realms: WeakSet[Any] = WeakSet()
        """The realms that started below it and may live."""
        self.stillnesses: list[list[socket.socket]] = []
        """The sockets that hold realms stopped, one list for each operation that stops them."""

    @classmethod
    def spawn(cls) -> Zygote:
        """Start the process and return at once, after about a millisecond. Call it in the main thread.

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
        # A killed one forks no more, even if its end takes some time.
        return self._process is not None and not self._killed and not self._process.ended_within(0)

    @property
    def stopped(self) -> bool:
        """Whether it was stopped (SIGSTOP), so that it answers nothing."""
        found = stat_of(self._pid) if self.alive else None
        return found is not None and found.state == b"T"

    def ensure(self) -> None:
        """Start a process if there is none, or if it is dead. Raises EnvironmentUnavailableError."""
        if self.alive:
            return
        self.close()
        ours, theirs = passing.pair()
        try:
            self._start(theirs)
        except OSError as error:
            ours.close()
            raise EnvironmentUnavailableError(
                f"the parent of worker processes could not be started: {error}"
            ) from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._forks = ours

    def _start(self, theirs: socket.socket) -> None:
        # The parent-death signal is tied to the thread that spawns; only the main one lives as long as the process.
        with_thread = threading.current_thread() is threading.main_thread()
        command = (sys.executable, "-S", "-s", "-P", "-X", "utf8", _BOOT)
        self._started += 1
        brand = own_brand(self._started)
        arguments = (str(_INHERITED), *map(str, brand), "1" if with_thread else "0", sys.prefix, sys.exec_prefix)
        places = own_import_path(sys.path, os.environ.get("PYTHONPATH", ""))
        variables = {name: os.environ[name] for name in (*KEPT_VARIABLES, _AGENT) if name in os.environ}
        self._pid = os.posix_spawn(
            sys.executable,
            [*command, *arguments, *places],
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
        self._process = ProcessHandle(self._pid)
        self.brand = brand
        self._lives = False
        self._killed = False

    async def ready(self) -> None:
        """Wait until fork requests are served without delay; for benchmarks and `doctor`."""
        import anyio  # here, because this module is imported first, and anyio takes long

        self.warm_up()
        while self._forks is not None and not self._lives:
            await anyio.wait_readable(self._forks)
            record = self._forks.recv(1)
            if not record:
                raise EnvironmentUnavailableError("the parent of worker processes ended while it was starting")
            self._lives = record == b"R"

    def warm_up(self) -> None:
        """Load the modules of workers in the process, 200 ms on another core, so that the first fork need not wait."""
        if self._forks is not None:
            # A process that is gone is replaced when a worker is needed.
            with contextlib.suppress(OSError):
                self._forks.send(b"W")

    def fork(self, descriptors: list[int]) -> None:
        """Request a process by sending its descriptors, in the order of `worker.forking.zygote`; or announce a copy.

        Raises:
            EnvironmentUnavailableError: the zygote cannot take them.
        """
        if self._forks is None:
            raise EnvironmentUnavailableError("the process that starts workers has been closed")
        try:
            passing.send(self._forks, b"F", descriptors)
        except OSError as error:
            raise EnvironmentUnavailableError(
                f"the parent of worker processes does not accept requests: {error}"
            ) from error

    def ask_outlines(self) -> socket.socket:
        """Return a socket for requests of outlines (`worker.handles.outlines`), valid while this process lives.

        Raises:
            EnvironmentUnavailableError: the zygote cannot take it.
            OSError: there are no sockets.
        """
        self.ensure()
        if self._forks is None:
            raise EnvironmentUnavailableError("the process that starts workers has been closed")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                passing.send(self._forks, b"O", [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise EnvironmentUnavailableError(f"the parent of worker processes is busy: {error}") from error
        return ours

    def begin_realm(self, forks: int) -> None:
        """Start a realm, whose zygote serves this fork socket (`worker.forking.realm`).

        Raises:
            EnvironmentUnavailableError: the zygote cannot take it.
        """
        if self._forks is None:
            raise EnvironmentUnavailableError("the process that starts workers has been closed")
        try:
            passing.send(self._forks, b"N", [forks])
        except OSError as error:
            raise EnvironmentUnavailableError(
                f"the parent of worker processes does not accept requests: {error}"
            ) from error

    def sweep(self, brand: object) -> None:
        """End the processes that the zygote with that brand left behind, if it is dead or dies shortly.

        Does nothing for an earlier zygote: its successor was started after a sweep.
        """
        # A dying process loses its sockets a moment before it counts as dead.
        if self.brand is None or brand != self.brand or self._process is None:
            return
        if self._process.ended_within(_LEAVE_SECONDS):
            from .worker.processes.ending import end_branded  # here, because the start does not need it

            end_branded(self.brand)

    def kill_worker(self, pid: int, brand: object) -> bool:
        """Kill one worker of the zygote with this brand, without its help; whether the worker existed.

        The zygote becomes the parent of the worker's processes and ends them.
        """
        with contextlib.suppress(OSError), ProcessHandle(pid) as process:
            found = stat_of(pid)
            # The id may belong to another process by now.
            if found is not None and found.parent == self._pid and brand_of(pid) == brand == self.brand:
                process.send(signal.SIGKILL)
                return True
        return False

    def kill(self) -> None:
        """Kill a process that does not answer, with its workers."""
        if self.alive and self._process is not None:
            self._killed = True
            self._process.send(signal.SIGKILL)
            self._process.ended_within(_LEAVE_SECONDS)
        self.sweep(self.brand)

    def close(self) -> None:
        """End the process with all its descendants, within two seconds; may be repeated."""
        if self._forks is not None:
            self._forks.close()
            self._forks = None
        if self._process is None:
            return
        if not self._process.ended_within(_LEAVE_SECONDS):
            self.kill()
        self.sweep(self.brand)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._process.close()
        self._process, self._pid = None, 0
