"""The host's handle on a realm: where the sandboxed statements of one session run, and the commands beside them.

Serves whoever asks the zygote for processes as the zygote itself does. It is asked for when the first process is,
and again when it, or the zygote, was found dead. Must not know what runs in it. Made by `worker_environment`.

Has the kernel hold more places of a worker that lives: those that came to be, or lost their mount, since it began.

Must not know which these are. Called by `worker_environment`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from struct import Struct
from typing import Final

import anyio

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from .worker.forking.realm import STAND_STILL, STILL
from .worker.processes.brands import Brand, stat_of
from .zygote import Zygote

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
        for held in self._zygote.stillnesses:  # ahead of the first process
            if (still := self._ask_to_stand_still()) is not None:
                held.append(still)

    def fork(self, descriptors: list[int]) -> None:
        """As `Zygote.fork`."""
        if self._forks is None:
            raise EnvironmentUnavailableError("the parent of sandboxed processes is closed")
        try:
            socket.send_fds(self._forks, [b"F"], descriptors)
        except OSError as error:
            raise EnvironmentUnavailableError(f"the parent of sandboxed processes takes no request: {error}") from error

    def stand_still(self, *, own: bool) -> list[socket.socket] | None:
        """Holds all that is in the realms of this host until `go_on`; None where that cannot be had.

        Those of other sessions, too, because they may have the same directories. Blocks until all rest.

        Args:
            own: whether this realm has to be held, and is not only one of the others.
        """
        held: list[socket.socket] = []
        # First, so that a realm which is begun from now on finds it.
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
        """Lets all go on that are held by these sockets."""
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
        """The socket on which the answer comes; None where nobody can be asked."""
        if self._forks is None:
            return None
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._forks, [STAND_STILL], [theirs.fileno()])
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
