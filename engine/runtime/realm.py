"""The host's handle on a realm: the process namespace of one session's sandboxed statements and commands.

`Realm` accepts the same requests for processes as the zygote. It is started with the first process, and again if it or
the zygote was found dead. `Holding` makes more paths read-only for a living worker. `Turns` excludes changes of files
by the host while the processes of all realms are stopped. Must not know what runs in a realm, nor which paths are
protected. Used by `worker_environment`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Final
from weakref import WeakKeyDictionary, WeakSet, finalize

import anyio

from ..core.domain import Domain, is_inside
from ..core.errors import EnvironmentUnavailableError
from ..files.pins import PIN
from .sandbox import sockets
from .system import passing
from .system.brands import Brand
from .system.descriptors import name_senders, receive_named
from .system.process_table import children_of, may_be_woken, stat_of, threads_of
from .system.processes import ProcessHandle
from .worker.forking.realm import STAND_STILL, STILL
from .zygote import KEPT_VARIABLES, Zygote

_STILL_SECONDS: Final = 5.0
_TURNS: Final[WeakKeyDictionary[Zygote, Turns]] = WeakKeyDictionary()
_HOLD_SECONDS: Final = 10.0
_HOLDINGS: Final[WeakSet[Holding]] = WeakSet()
MOST_VIEWS: Final = 200
"""Number of directories that are kept open for a worker; with more, it is replaced."""
MOST_OF_ALL: Final = 2
"""All workers together may keep open one part in so many of the files that this process may open."""
_TOO_MANY: Final = "too many directories got protected files after the worker started"
MOST_BEGUN: Final = 100
"""Number of directories that are kept open for a worker from its start."""
_PLACE: Final = PIN | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAY_WRITABLE: Final = "the protected paths could not be made read-only"
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM: Final = (
    f"import sys; sys.path.append({os.path.dirname(_PACKAGE)!r});"
    f"from {os.path.basename(_PACKAGE)}.runtime.sandbox.mounts import main; main()"
)


class Realm:
    """One realm, replaced by a new one if it was found dead."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        zygote.realms.add(self)
        self._forks: socket.socket | None = None
        self._process: ProcessHandle | None = None
        self._pid = 0
        self._begun = 0
        self._zygote_brand: Brand | None = None

    @property
    def brand(self) -> tuple[Brand | None, int]:
        """Identifies this realm among its predecessors and successors."""
        return self._zygote_brand, self._begun

    @property
    def stopped(self) -> bool:
        """Whether it or the zygote was stopped (SIGSTOP), so that it answers nothing."""
        found = stat_of(self._pid) if self._find() else None
        return self._zygote.stopped or (found is not None and found.state == b"T")

    def ensure(self) -> None:
        """Start the realm if there is none, or if it is dead. Raises EnvironmentUnavailableError."""
        self._zygote.ensure()
        if self._forks is not None and self._zygote_brand == self._zygote.brand and not self._is_over():
            return
        self.close()
        ours, theirs = passing.pair()
        name_senders(ours)
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
        for held in self._zygote.stillnesses:  # ahead of the first process
            if (still := self._ask_to_stand_still()) is not None:
                held.append(still)

    def fork(self, descriptors: list[int]) -> None:
        """See `Zygote.fork`."""
        if self._forks is None:
            raise EnvironmentUnavailableError("the parent of sandboxed processes was closed")
        try:
            passing.send(self._forks, b"F", descriptors)
        except OSError as error:
            raise EnvironmentUnavailableError(
                f"the parent of sandboxed processes does not accept requests: {error}"
            ) from error

    def stand_still(self, *, own: bool) -> list[socket.socket] | None:
        """Stop all processes in the realms of this host until `go_on`; None if that is impossible.

        Also those of other sessions, because they may have the same directories. Blocks until all are stopped.

        Args:
            own: whether this realm must be stopped even if it is not known to run.
        """
        held: list[socket.socket] = []
        # First, so that a realm that starts from now on finds it.
        self._zygote.stillnesses.append(held)
        others: set[Realm] = set(self._zygote.realms)
        for realm in others:
            is_needed = own and realm is self
            if not is_needed and not realm.is_begun:
                continue
            if (one := realm._stand_still()) is None and (is_needed or not realm._is_over()):
                self.go_on(held)
                return None
            if one is not None:
                held.append(one)
        return held

    def go_on(self, held: list[socket.socket]) -> None:
        """Let the processes continue that these sockets hold."""
        with contextlib.suppress(ValueError):
            self._zygote.stillnesses.remove(held)
        while held:
            held.pop().close()

    @property
    def is_begun(self) -> bool:
        return self._forks is not None

    def _stand_still(self) -> socket.socket | None:
        ours = self._ask_to_stand_still()
        if ours is None:
            return None
        with contextlib.suppress(OSError):
            ours.settimeout(_STILL_SECONDS)
            if ours.recv(1) == STILL:
                return ours
        ours.close()
        return None

    def _ask_to_stand_still(self) -> socket.socket | None:
        """Request it; return the socket for the answer, or None if the realm cannot be reached."""
        if self._forks is None:
            return None
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            passing.send(self._forks, STAND_STILL, [theirs.fileno()])
            return ours
        ours.close()
        return None

    def ask_outlines(self) -> socket.socket:
        """See `Zygote.ask_outlines`."""
        return self._zygote.ask_outlines()

    def kill_worker(self, pid: int, brand: object) -> bool:
        """See `Zygote.kill_worker`."""
        with contextlib.suppress(OSError), ProcessHandle(pid) as process:
            found = stat_of(pid)
            if self._find() and found is not None and found.parent == self._pid and brand == self.brand:
                process.send(signal.SIGKILL)
                return True
        return False

    def has_others(self, idle: Sequence[int]) -> bool:
        """Return whether it has other processes than these, or one of these may act by itself; True if unknown.

        One may act because of another thread, a timer, or a handler of another signal than SIGINT.
        """
        if self._forks is None or self._is_over():
            return False
        if not self._find():
            return True
        found, waiting = set[int](), [self._pid]
        while waiting:
            below = children_of(waiting.pop())
            if below is None:
                return True
            waiting += below
            found |= below
        with contextlib.suppress(OSError):
            return not found <= set(idle) or any(threads_of(pid) > 1 or may_be_woken(pid) for pid in found)
        return True

    def kill(self) -> None:
        """Kill the realm with all its processes."""
        if self._find() and self._process is not None:
            with contextlib.suppress(OSError):
                self._process.send(signal.SIGKILL)
        else:
            self._zygote.kill()

    def sweep(self, brand: object) -> None:
        """Does nothing: the rest of a dead realm ends with it, or is ended by the zygote, its new parent."""

    def close(self) -> None:
        """End the realm with all its processes; may be repeated."""
        if self._forks is not None:
            self._forks.close()
            self._forks = None
        if self._process is not None:
            self._process.close()
        self._process, self._pid = None, 0

    def _find(self) -> bool:
        """Whether its process is known. It reports that when it has started."""
        if self._pid or self._forks is None:
            return bool(self._pid)
        with contextlib.suppress(OSError):
            _, pid = receive_named(self._forks)
            if pid:
                self._process, self._pid = ProcessHandle(pid), pid
        return bool(self._pid)

    def _is_over(self) -> bool:
        assert self._forks is not None
        poll = select.poll()
        poll.register(self._forks.fileno(), 0)
        return bool(poll.poll(0))


class Holding:
    """Makes further paths read-only for a worker, and for those that continue from its checkpoints.

    The directories above such a path become mounts of their own. A process that has opened one before sees it below
    that mount. One that has opened it later stays in that mount if the user moves the directory. So these directories
    are kept open as they were before and after, and the paths become read-only there too. The same applies to the
    directories that are mounts from the worker's start, which nobody has opened before. They are closed when nobody
    refers to this object any more.
    """

    def __init__(self) -> None:
        self._views: list[int] = []
        self._root: list[int] = []
        """The root of the worker's file tree, once it has begun."""
        self._sockets: frozenset[str] = frozenset()
        """The Unix sockets of the last look-up."""
        self._covered: frozenset[str] = frozenset()
        """Those that the worker did not find any more at an earlier look-up."""
        _HOLDINGS.add(self)
        finalize(self, _close, self._views, self._root)

    def begin(self, pid: int, domain: Domain) -> None:
        """Keep the directories open that are mounts for a fresh worker, before it runs anything.

        At most MOST_BEGUN, those near the top first. Its root is kept open, too, because a statement can see to it that
        the worker cannot be asked any more (`PR_SET_DUMPABLE`).
        """
        with contextlib.suppress(OSError):  # it is dead
            self._root.append(os.open(f"/proc/{pid}/root", PIN | os.O_CLOEXEC))
        most = min(MOST_BEGUN, max(self._left(), 0))
        for directory in sorted(_bound(domain), key=lambda each: each.count("/"))[:most]:
            with contextlib.suppress(OSError):  # it is gone, or has become a link
                self._views.append(os.open(f"/proc/{pid}/root{directory}", _PLACE))

    @staticmethod
    def _left() -> int:
        """Return how many more directories all workers together may keep open."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // MOST_OF_ALL
        return most - sum(len(each._views) for each in _HOLDINGS)

    def sees(self, directory: str) -> bool:
        """Return whether the worker finds the same directory at an absolute path as this process: it is not hidden.

        Asks the kernel, because a number that the file system gives to a new directory may be that of the old one.
        """
        try:
            ours = os.stat(directory)
            return any(os.path.samestat(os.stat(directory[1:], dir_fd=root), ours) for root in self._root)
        except OSError:
            return False

    def late_sockets(self, domain: Domain) -> Sequence[str]:
        """Return the Unix sockets outside that were made after the worker started, and that it finds at their paths."""
        self._sockets = sockets.bound(domain)
        late = [path for path in sockets.outside(self._sockets - self._covered, domain) if self.sees(path)]
        if not late:
            self._covered = self._sockets
        return late

    async def hold(self, pid: int, domain: Domain, places: Sequence[str], late: Sequence[str] = ()) -> None:
        """Make absolute paths read-only in the namespaces of that process, and cover late sockets. Takes some 30 ms.

        Paths that the domain does not allow to write anyway are skipped.

        Raises:
            EnvironmentUnavailableError: the paths stay writable, or too many directories are open now.
        """
        ours, theirs = passing.pair()
        with ours, theirs:
            wanted = {
                "pid": pid,
                "writable": [*domain.writable, domain.scratch],
                "read_only": places,
                "views": self._views,
                "report": theirs.fileno(),
                "sockets": late,
            }
            passed = [theirs.fileno(), *self._views]
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
            try:
                with anyio.fail_after(_HOLD_SECONDS):
                    text = json.dumps(wanted).encode()
                    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
                    done = await anyio.run_process(command, input=text, env=kept, check=False, pass_fds=passed)
            except (OSError, TimeoutError) as error:
                raise EnvironmentUnavailableError(f"{_STAY_WRITABLE}: {error}") from None
            finally:
                theirs.close()
                self._views += _received(ours)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise EnvironmentUnavailableError(f"{_STAY_WRITABLE}: {reason}")
        if late:
            self._covered = self._sockets
        if len(self._views) > MOST_VIEWS or self._left() < 0:
            raise EnvironmentUnavailableError(_TOO_MANY)


def _bound(domain: Domain) -> set[str]:
    """Return the directories that the mount layer binds for a domain: those between a writable one and a place."""
    roots = (*domain.writable, domain.scratch)
    return {
        above
        for place in (*domain.read_only, *domain.hidden)
        for above in map(str, PurePath(place).parents)
        if any(above != root and is_inside(above, (root,)) for root in roots)
    }


def _received(reports: socket.socket) -> Sequence[int]:
    found: list[int] = []
    reports.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sent, descriptors = passing.receive(reports, 1)
            if not sent:
                break
            found += descriptors
    return found


def _close(*descriptors: list[int]) -> None:
    for each in descriptors:
        while each:
            os.close(each.pop())


class Turns:
    """A lock for changes of files by the host: shared by several changes, or exclusive while statements are stopped."""

    def __init__(self) -> None:
        self._acting = 0
        self._is_alone = False
        self._changed = anyio.Condition()

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        """Hold the lock with others."""
        async with self._changed:
            while self._is_alone:
                await self._changed.wait()
            self._acting += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._acting -= 1
                    self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Hold the lock alone. Changes that have begun end first; later ones wait."""
        async with self._changed:
            while self._is_alone:
                await self._changed.wait()
            self._is_alone = True
        try:
            async with self._changed:
                while self._acting:
                    await self._changed.wait()
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._is_alone = False
                    self._changed.notify_all()


def turns_of(zygote: Zygote) -> Turns:
    """The lock that all sessions of the zygote's host share."""
    return _TURNS.setdefault(zygote, Turns())
