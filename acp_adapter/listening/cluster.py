"""Hosts of users as actors of a Ray cluster, which places them and starts them again.

Each user's host is one named actor. It starts the host as a process of its node (`LocalProcesses`), and accepts
connections there: a front end asks it for a *door*, an address with a ticket that admits one connection within
TICKET_SECONDS. The socket then goes to the host, so nothing is forwarded on the node. Any number of front ends find the
same actor by its name, and it outlives them.

Ray notices a node or a process that ended. It does not notice one that was stopped or cut off. So a front end waits
ANSWER_SECONDS for a door, and then has Ray kill the actor and starts another one. The old host ends by itself, because
it hears no beat of its actor any more (`acp_adapter.hosting`). If it is stopped as well, the store keeps it from
writing (`engine.log.store.postgresql`): the new one waits until its lease is over.

Nothing here runs without `--cluster`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread

from acp_adapter.control import SILENT_SECONDS
from acp_adapter.jsonrpc.sockets import SocketTransport
from acp_adapter.listening.placement import END_SECONDS, NO_HEAD, LocalProcesses, PlacementError
from acp_adapter.listening.users import User
from engine.runtime.ray_cluster import VARIABLES, ClusterError, join, leave

ray: Any = import_module("ray")
"""Most of it has no types."""
RayError: type[Exception] = import_module("ray.exceptions").RayError
ActorDiedError: type[Exception] = import_module("ray.exceptions").ActorDiedError
ANSWER_SECONDS: Final = 15.0
"""How long a host may take to open its door. The start of a host takes about a second."""
TICKET_SECONDS: Final = 10.0
UNUSED_SECONDS: Final = 2 * TICKET_SECONDS
"""How long an actor stays without a host. No ticket of it is valid any more by then."""
HEAD_SECONDS: Final = 5.0
"""How often the head of the cluster is looked at, and how long it may take."""
MOST_STRANGERS: Final = 64
"""Connections without a ticket. If there is one more, the oldest has to leave."""
_PAUSE: Final = 0.1
"""Seconds until the next attempt, when no connection can be accepted."""
_TICKET_BYTES: Final = 32
_BEAT_SECONDS: Final = SILENT_SECONDS / 4
_KEEPALIVE: Final[tuple[tuple[int, int], ...]] = tuple(
    (getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
)
"""A connection to a machine that is gone ends within 20 seconds."""

_log = logging.getLogger(__name__)

Door = tuple[str, int, bytes]
"""The address and port of a host, and a ticket."""


class Resources(NamedTuple):
    """What a host needs of its node: processors, bytes of memory, and labels, in which `{user}` is the user's name."""

    cpus: float = 0.0
    memory: int = 0
    labels: Mapping[str, str] = MappingProxyType({})

    def labels_for(self, user: User) -> dict[str, str]:
        return {name: value.replace("{user}", user.name) for name, value in self.labels.items()}


class Hosting(NamedTuple):
    """How hosts run: settings as variables of their environment, a state directory on each node, and their option."""

    variables: Mapping[str, str]
    state_dir: str
    idle_minutes: float | None = None


class HostActor:
    """A user's host on a node. Its methods run in the actor's event loop."""

    def __init__(self, user: User, hosting: Hosting) -> None:
        """All else comes from the node's environment."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
        self._user = user
        self._processes = LocalProcesses(
            {**environ, **hosting.variables}, Path(hosting.state_dir), hosting.idle_minutes
        )
        self._tickets: dict[bytes, float] = {}
        self._used = time.monotonic()
        """When a host last ran, or was asked for."""
        self._listening: socket.socket | None = None
        self._strangers: dict[socket.socket, None] = {}
        """Connections that have shown no ticket yet, the oldest first."""
        self._tasks: list[asyncio.Task[None]] = []

    async def door(self) -> Door:
        """Start the host if it does not run, and return a new door to it."""
        await self._processes.start(self._user)
        if self._listening is None:
            self._listening = socket.create_server((str(ray.util.get_node_ip_address()), 0))
            self._listening.setblocking(False)
            lives = (self._accept(self._listening), self._beat(), self._processes.tend())
            self._tasks = [asyncio.create_task(each) for each in lives]
        now = self._used = time.monotonic()
        self._tickets = {ticket: until for ticket, until in self._tickets.items() if until > now}
        ticket = secrets.token_bytes(_TICKET_BYTES)
        self._tickets[ticket] = now + TICKET_SECONDS
        host, port = self._listening.getsockname()[:2]
        return host, port, ticket

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    connected, _ = await loop.sock_accept(listening)
                except OSError as error:
                    _log.error("no connection can be accepted: %s", error.strerror)
                    await asyncio.sleep(_PAUSE)
                    continue
                if len(self._strangers) >= MOST_STRANGERS:
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    with suppress(OSError):  # it has ended
                        oldest.shutdown(socket.SHUT_RDWR)
                self._strangers[connected] = None
                tasks.start_soon(self._admit, connected)

    async def _beat(self) -> None:
        """Keep the host running as long as this process runs: one that is stopped or cut off must not go on.

        An actor whose host was let go, or has ended long ago, ends. Ray starts no other one before a client comes.
        """
        while True:
            if (host := self._processes.find(self._user.name)) is not None:
                host.beat()
                self._used = time.monotonic()
            elif time.monotonic() - self._used > UNUSED_SECONDS:
                await anyio.to_thread.run_sync(_kill, ray.get_runtime_context().current_actor)
            await asyncio.sleep(_BEAT_SECONDS)

    async def _admit(self, connected: socket.socket) -> None:
        """Give the connection to the host if it begins with a ticket."""
        with connected:
            try:
                with anyio.fail_after(TICKET_SECONDS):
                    ticket = await _read(connected, _TICKET_BYTES)
                self._strangers.pop(connected, None)
                if self._redeemed(ticket):
                    _watch(connected)
                    host = await self._processes.start(self._user)
                    await host.give(connected)
            except (OSError, PlacementError, TimeoutError):
                return  # the front end sees that the connection ends
            finally:
                self._strangers.pop(connected, None)

    def _redeemed(self, ticket: bytes) -> bool:
        now = time.monotonic()
        known = next((each for each in self._tickets if hmac.compare_digest(each, ticket)), None)
        return known is not None and self._tickets.pop(known) > now

    async def end(self) -> None:
        """End the host, with its sessions."""
        for task in self._tasks:
            task.cancel()
        await self._processes.end(self._user.name)


async def _read(connected: socket.socket, size: int) -> bytes:
    connected.setblocking(False)
    data = b""
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(connected, size - len(data))
        if not piece:
            raise ConnectionError("it ended before its ticket")
        data += piece
    return data


def _watch(connected: socket.socket) -> None:
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


class _EndedError(PlacementError):
    """Raised for an actor that was ended on purpose, and that Ray does not start again."""


class RayHost:
    """A user's host somewhere in the cluster."""

    def __init__(self, user: User, actor: Any, placement: RayPlacement) -> None:
        self.user: Final = user
        self.actor: Final = actor
        self._placement = placement

    async def connect(self) -> SocketTransport:
        """Open a connection to the host, which is started anew if it does not answer. Raises PlacementError."""
        try:
            return await self.enter()
        except _EndedError:
            _log.debug("the host of %s was let go, or replaced by another server", self.user.name)
        except (OSError, TimeoutError, PlacementError) as error:
            _log.warning("the host of %s does not answer and is replaced: %s", self.user.name, error or "too late")
        other = await self._placement.replaced(self)
        try:
            return await other.enter()
        except (OSError, TimeoutError) as error:
            raise PlacementError(
                f"the host of {self.user.name} does not answer: {error or 'it took too long'}"
            ) from None

    async def enter(self) -> SocketTransport:
        """Open a connection through a door. Raises OSError, PlacementError and TimeoutError."""
        with anyio.fail_after(ANSWER_SECONDS):
            address, port, ticket = await self._placement.door(self.actor)
            connected = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            transport = SocketTransport(connected)
            try:
                _watch(connected)
                await asyncio.get_running_loop().sock_connect(connected, (address, port))
                await transport.send(ticket)
            except BaseException:
                transport.close()
                raise
            return transport


class RayPlacement:
    """A host for each user, as a named actor. Use `join` to make one."""

    def __init__(self, hosting: Hosting, resources: Resources, folder: str | None = None) -> None:
        self._hosting = hosting
        self._folder = folder
        """Ray's files of a cluster of this machine alone."""
        self._resources = resources
        self._hosts: dict[str, RayHost] = {}
        self._starting: Final = anyio.Lock()

    @classmethod
    def join(cls, address: str, hosting: Hosting, resources: Resources) -> RayPlacement:
        """Join the cluster at an address, or begin one of this machine; takes seconds.

        Args:
            address: as for `engine.runtime.ray_cluster.join`.
            hosting: how hosts run.
            resources: what each host needs.

        Raises:
            PlacementError: the cluster does not answer, or has another version of Python or Ray.
        """
        try:
            return cls(hosting, resources, join(address))
        except ClusterError as error:
            raise PlacementError(str(error)) from None

    async def start(self, user: User) -> RayHost:
        """Return the user's host; its actor is made if the cluster has none. Raises PlacementError."""
        async with self._starting:
            found = self._hosts.get(user.name)
            if found is None or found.user != user:
                found = self._hosts[user.name] = RayHost(user, await self._actor(user), self)
            return found

    async def _actor(self, user: User) -> Any:
        options = ray.remote(HostActor).options(
            name=user.name,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_concurrency=1_000,
            num_cpus=self._resources.cpus,
            memory=self._resources.memory,
            label_selector=self._resources.labels_for(user),
        )
        make = partial(options.remote, user, self._hosting)
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                return await anyio.to_thread.run_sync(make, abandon_on_cancel=True)
        except TimeoutError:
            raise PlacementError(f"the host of {user.name} cannot be placed: {NO_HEAD}") from None
        except (RayError, ValueError) as error:
            raise PlacementError(f"the host of {user.name} cannot be placed: {error}") from None

    async def door(self, actor: Any) -> Door:
        """Ask a host for a door. Raises PlacementError."""
        try:
            return await actor.door.remote()
        except ActorDiedError as error:
            raise _EndedError(str(error)) from None
        except RayError as error:
            raise PlacementError(str(error)) from None

    async def replaced(self, host: RayHost) -> RayHost:
        """Return another host than one that does not answer, which is killed. Raises PlacementError."""
        async with self._starting:
            if self._hosts.get(host.user.name) is host:
                del self._hosts[host.user.name]
                await anyio.to_thread.run_sync(_kill, host.actor)
        return await self.start(host.user)

    def find(self, user: str) -> RayHost | None:
        """Return the host of the user with that name, if this front end has used it."""
        return self._hosts.get(user)

    async def end(self, user: str) -> None:
        """End a host, with its sessions."""
        if (found := self._hosts.pop(user, None)) is not None:
            with suppress(RayError), anyio.move_on_after(END_SECONDS):
                await found.actor.end.remote()
            await anyio.to_thread.run_sync(_kill, found.actor)

    def list(self) -> Sequence[User]:
        """Return the users whose hosts this front end has used."""
        return [host.user for host in self._hosts.values()]

    async def tend(self) -> None:
        """Say when the head of the cluster does not answer, until cancelled. Actors look after their hosts."""
        address, _, port = str(ray.get_runtime_context().gcs_address).rpartition(":")
        is_there = True
        while True:
            await anyio.sleep(HEAD_SECONDS)
            was_there, is_there = is_there, await _answers(address, int(port))
            if was_there and not is_there:
                _log.error("%s", NO_HEAD)

    async def leave(self) -> None:
        """Leave the cluster. Hosts go on for other front ends, except in a cluster of this machine alone."""
        await anyio.to_thread.run_sync(leave, self._folder)


async def _answers(address: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        with anyio.fail_after(HEAD_SECONDS):
            async with await anyio.connect_tcp(address, port):
                return True
    except (OSError, TimeoutError):
        return False


def _kill(actor: Any) -> None:
    with suppress(RayError, ValueError):
        ray.kill(actor, no_restart=True)
