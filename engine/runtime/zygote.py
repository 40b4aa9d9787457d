"""The host's handle on its zygote: started before anything else is, asked for forks, ended with the host.

Imports the standard library alone and never `subprocess`, because `Zygote.spawn` belongs at the very start of the
program, in parallel with its imports. Must not know what workers do. Spawned by whoever starts a host, and by `doctor`;
`connection` asks it for workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final
from weakref import WeakSet

import anyio

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from .worker.forking.realm import STAND_STILL, STILL
from .worker.processes.system import Brand, brand_of, own_brand, stat_of

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


# realm:
# The host's handle on a realm: where the sandboxed statements of one session run, and the commands beside them.
#
# Serves whoever asks the zygote for processes as the zygote itself does. It is asked for when the first process is,
# and again when it, or the zygote, was found dead. Must not know what runs in it. Made by `worker_environment`.

_CREDENTIALS: Final = Struct("=iII")
"""Of the sender of a record: process, user and group."""
_STILL_SECONDS: Final = 5.0


class Realm:
    """One realm, replaced by a new one when it is found dead."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        zygote.realms.add(self)
        self._forks: socket.socket | None = None
        self._process = -1
        self._pid = 0
        self._begun = 0
        self._zygote_brand: Brand | None = None

    @property
    def brand(self) -> tuple[Brand | None, int]:
        """What tells this realm from those before and after it."""
        return self._zygote_brand, self._begun

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it, or the zygote, so that it serves nobody for as long as they like."""
        found = stat_of(self._pid) if self._find() else None
        return self._zygote.stopped or (found is not None and found.state == b"T")

    def ensure(self) -> None:
        """Asks for the realm where there is none, or none any more. Raises EnvironmentUnavailableError."""
        self._zygote.ensure()
        if self._forks is not None and self._zygote_brand == self._zygote.brand and not self._is_over():
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            try:
                self._zygote.begin_realm(theirs.fileno())
            except EnvironmentUnavailableError:
                ours.close()
                raise
        ours.setblocking(False)
        self._forks = ours
        self._zygote_brand = self._zygote.brand
        self._begun += 1

    def fork(self, descriptors: list[int]) -> None:
        """As `Zygote.fork`."""
        if self._forks is None:
            raise EnvironmentUnavailableError("the parent of sandboxed processes is closed")
        try:
            socket.send_fds(self._forks, [b"F"], descriptors)
        except OSError as error:
            raise EnvironmentUnavailableError(f"the parent of sandboxed processes takes no request: {error}") from error

    def stand_still(self) -> list[socket.socket] | None:
        """Holds all that is in the realms of this host until the sockets are closed; None where that cannot be had.

        Those of other sessions, too, because they may have the same directories. Blocks until all rest.
        """
        held: list[socket.socket] = []
        others: set[Realm] = set(self._zygote.realms)
        for realm in others:
            if realm is not self and not realm.is_begun:
                continue
            if (one := realm._stand_still()) is None and not (realm is not self and realm._is_over()):
                for each in held:
                    each.close()
                return None
            if one is not None:
                held.append(one)
        return held

    @property
    def is_begun(self) -> bool:
        return self._forks is not None

    def _stand_still(self) -> socket.socket | None:
        if self._forks is None:
            return None
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._forks, [STAND_STILL], [theirs.fileno()])
            ours.settimeout(_STILL_SECONDS)
            if ours.recv(1) == STILL:
                return ours
        ours.close()
        return None

    def ask_outlines(self) -> socket.socket:
        """As `Zygote.ask_outlines`."""
        return self._zygote.ask_outlines()

    def kill_worker(self, pid: int, brand: object) -> bool:
        """As `Zygote.kill_worker`."""
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                found = stat_of(pid)
                if self._find() and found is not None and found.parent == self._pid and brand == self.brand:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    return True
            finally:
                os.close(descriptor)
        return False

    def kill(self) -> None:
        """Ends the realm the hard way, with all that is in it."""
        if self._find():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
        else:
            self._zygote.kill()

    def sweep(self, brand: object) -> None:
        """Does nothing: what is left of a realm that ended ends with it, or by the zygote, which becomes its parent."""

    def close(self) -> None:
        """Ends the realm with all that is in it; may be called again at any time."""
        if self._forks is not None:
            self._forks.close()
            self._forks = None
        if self._process >= 0:
            os.close(self._process)
        self._process, self._pid = -1, 0

    def _find(self) -> bool:
        """Whether it is known which process it is; it says so itself when it has begun."""
        if self._pid or self._forks is None:
            return bool(self._pid)
        with contextlib.suppress(OSError):
            _, ancillary, _, _ = self._forks.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                    pid = int(_CREDENTIALS.unpack(value[: _CREDENTIALS.size])[0])
                    self._process, self._pid = os.pidfd_open(pid), pid
        return bool(self._pid)

    def _is_over(self) -> bool:
        assert self._forks is not None
        poll = select.poll()
        poll.register(self._forks.fileno(), 0)
        return bool(poll.poll(0))


# protecting:
# Has the kernel hold more places of a worker that lives: those that came to be, or lost their mount, since it began.
#
# Must not know which these are. Called by `worker_environment`.

_SECONDS: Final = 10.0
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM: Final = (
    f"import sys; sys.path.insert(0, {os.path.dirname(_PACKAGE)!r});"
    f"from {os.path.basename(_PACKAGE)}.runtime.sandbox.protecting import main; main()"
)


async def hold(pid: int, domain: Domain, places: Sequence[str]) -> None:
    """Returns when nothing in the namespaces of that process can write the places any more, which are absolute.

    Those outside what the domain allows to write are left out. Takes some 30 ms.

    Raises:
        EnvironmentUnavailableError: the kernel does not hold them.
    """
    wanted = {"pid": pid, "writable": [*domain.writable, domain.scratch], "read_only": places}
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    try:
        with anyio.fail_after(_SECONDS):
            done = await anyio.run_process(command, input=json.dumps(wanted).encode(), check=False)
    except (OSError, TimeoutError) as error:
        raise EnvironmentUnavailableError(f"what other programs run could not be protected: {error}") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise EnvironmentUnavailableError(f"what other programs run could not be protected: {reason}")
