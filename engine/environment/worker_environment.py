"""The Environment whose namespace lives in a worker process. All workers of a host come from one zygote.

Used by hosts, through `factory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..errors import EnvironmentUnavailableError
from ..ports.environment import EnvironmentSpec
from . import protecting
from .connected_environment import ConnectedEnvironment
from .forked_program import ForkedProgram
from .paused_worker import PausedWorker
from .worker_connection import WorkerConnection
from .zygote import Zygote


class WorkerEnvironment(ConnectedEnvironment):
    """One session's namespace, in a process of its own."""

    def __init__(self, zygote: Zygote) -> None:
        super().__init__(self._open, partial(ForkedProgram.start, zygote), self._go_on)
        self._zygote = zygote
        self._latest: WorkerConnection | None = None

    def _open(self, spec: EnvironmentSpec) -> WorkerConnection:
        self._latest = WorkerConnection.open(self._zygote, spec)
        return self._latest

    def _go_on(self, spec: EnvironmentSpec, paused: PausedWorker) -> WorkerConnection:
        self._latest = WorkerConnection.restore(self._zygote, paused, spec)
        return self._latest

    async def hold(self, places: Sequence[str]) -> None:
        """Raises EnvironmentUnavailableError; see the port."""
        domain = None if self._spec is None else self._spec.domain
        if domain is None or "mounts" not in self.layers or not self.alive:
            return
        if self.pid is None:
            raise EnvironmentUnavailableError("the worker cannot be found, so nothing more can be protected from it")
        await protecting.hold(self.pid, domain, places)

    @property
    def pid(self) -> int | None:
        """The worker's process id, for tests; None where there is no worker."""
        return None if self._latest is None or self._latest.dead else self._latest.pid
