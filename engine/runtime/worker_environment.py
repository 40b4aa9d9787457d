"""The Environment whose namespace lives in a worker process. All workers of a host come from one zygote.

Used by hosts, through `factory`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from socket import socket
from typing import Final
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from ..core.programs import CommandRequest
from . import realm
from .checkpoints import PausedWorker
from .connected_environment import ConnectedEnvironment
from .control_channel import Parent
from .environment import EnvironmentSpec
from .programs import ForkedProgram
from .realm import Realm
from .worker_connection import WorkerConnection
from .zygote import Zygote


class Turns:
    """Acts of the host on files for statements: several at a time, or one alone while statements are held still."""

    def __init__(self) -> None:
        self._acting = 0
        self._is_alone = False
        self._changed = anyio.Condition()

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        """While nobody is alone."""
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
        """While nobody else acts. Waits for acts that have begun; those that come later wait for this one."""
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


_TURNS: Final[WeakKeyDictionary[Zygote, Turns]] = WeakKeyDictionary()
"""One for all sessions of a host."""


class WorkerEnvironment(ConnectedEnvironment):
    """One session's namespace, in a process of its own."""

    def __init__(self, zygote: Zygote) -> None:
        super().__init__(self._open, self._begin_program, self._go_on)
        self._zygote = zygote
        self._turns = _TURNS.setdefault(zygote, Turns())
        self._realm = Realm(zygote)
        self._latest: WorkerConnection | None = None

    def _open(self, spec: EnvironmentSpec) -> WorkerConnection:
        self._latest = WorkerConnection.open(self._parent(spec.domain), spec)
        return self._latest

    def _go_on(self, spec: EnvironmentSpec, paused: PausedWorker) -> WorkerConnection:
        self._latest = WorkerConnection.restore(self._parent(spec.domain), paused, spec)
        return self._latest

    def _begin_program(self, spec: EnvironmentSpec, request: CommandRequest) -> ForkedProgram:
        return ForkedProgram.start(self._parent(request.domain), spec, request)

    def _parent(self, domain: Domain | None) -> Parent:
        """Who forks what is to be in that domain. What has the user's rights also sees the user's processes."""
        return self._zygote if domain is None or "mounts" in domain.without else self._realm

    async def close(self) -> None:
        """See the port."""
        await super().close()
        self._realm.close()

    async def hold(self, places: Sequence[str]) -> None:
        """Raises EnvironmentUnavailableError; see the port."""
        domain = None if self._spec is None else self._spec.domain
        if domain is None or "mounts" not in self.layers or not self.alive:
            return
        if self.pid is None:
            raise EnvironmentUnavailableError("the worker cannot be found, so nothing more can be protected from it")
        await realm.hold(self.pid, domain, places)

    def stopped(self) -> AbstractAsyncContextManager[bool]:
        """See the port."""
        return self._standing_still()

    @asynccontextmanager
    async def _standing_still(self) -> AsyncGenerator[bool]:
        own = self._spec is not None and self._spec.domain is not None
        async with self._turns.alone():
            still: list[socket] | None = None
            with anyio.CancelScope(shield=True):  # or nobody would let them go on
                still = await anyio.to_thread.run_sync(partial(self._realm.stand_still, own=own))
            try:
                yield still is not None
            finally:
                self._realm.go_on(still or [])

    def acting(self) -> AbstractAsyncContextManager[None]:
        """See the port."""
        return self._turns.shared()

    @property
    def pid(self) -> int | None:
        """The worker's process id, for tests; None where there is no worker."""
        return None if self._latest is None or self._latest.dead else self._latest.pid
