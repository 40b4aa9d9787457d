"""Who is told that a resource has changed, and when: a look at the sources each second, while anybody subscribes.

A cue says that reading again is worth it: a file that is followed has changed, which `tick` adopts, or a handle shows
something else than at the last look. It never ticks. Both eras have their own way to subscribe and to be told. Called
by `server`; run by `serving`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from engine.errors import EngineError
from mcp_tools.bench import Bench
from mcp_tools.sessions import BenchPool

logger = logging.getLogger(__name__)
POLL_SECONDS: Final = 1.0
MOST_SUBSCRIPTIONS: Final = 1024
"""Of resources, by clients of the handshake era, together."""


class _Bus(InMemorySubscriptionBus):
    """Knows whether anybody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners = 0

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        leave = super().subscribe(listener)
        self.listeners += 1
        left = False

        def unsubscribe() -> None:
            nonlocal left
            if not left:
                left = True
                self.listeners -= 1
            leave()

        return unsubscribe


class Feed:
    """The subscriptions of one server."""

    def __init__(self, pool: BenchPool) -> None:
        self._pool = pool
        self.bus = _Bus()
        self._legacy: dict[tuple[str, str], list[ServerSession]] = {}
        """Of the handshake era, by the key of the session and the URI."""
        self._seen: dict[Bench, Mapping[str, object]] = {}
        """What each handle was like at the last look, by URI."""

    def subscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """A client of the handshake era wants to be told. Raises MCPError where there are too many."""
        if sum(map(len, self._legacy.values())) >= MOST_SUBSCRIPTIONS:
            raise MCPError(-32602, f"there are {MOST_SUBSCRIPTIONS} subscriptions, the most there can be")
        clients = self._legacy.setdefault((key, uri), [])
        if not any(_is_same(each, client) for each in clients):
            clients.append(client)

    def unsubscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """It does not want to any more."""
        clients = [each for each in self._legacy.get((key, uri), ()) if not _is_same(each, client)]
        if clients:
            self._legacy[key, uri] = clients
        else:
            self._legacy.pop((key, uri), None)

    async def listed_anew(self, client: ServerSession) -> None:
        """Handles were opened or closed by that client."""
        await self.bus.publish(ResourcesListChanged())
        await _told(client.send_resource_list_changed)

    async def serve(self) -> None:
        """Looks and tells, until it is cancelled."""
        while True:
            await anyio.sleep(POLL_SECONDS)
            if not self.bus.listeners and not self._legacy:
                self._seen.clear()
                continue
            for key, bench in self._pool.awake():
                try:
                    await self._look(key, bench)
                except EngineError as error:
                    logger.info("no look at the handles: %s", error)

    async def _look(self, key: str, bench: Bench) -> None:
        looked = await bench.session.look(at_sources=True)
        now = {f"{row.obj_type}://{row.name}": (row, row.obj_id in looked.stale) for row in looked.rows}
        before = self._seen.get(bench)
        self._seen[bench] = now
        for uri, what in now.items():
            if before is not None and before.get(uri, what) != what:
                await self._tell(key, uri)

    async def _tell(self, key: str, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=uri))
        for client in list(self._legacy.get((key, uri), ())):
            if not await _told(client.send_resource_updated, uri):
                self.unsubscribe(key, uri, client)


def _is_same(one: ServerSession, other: ServerSession) -> bool:
    """Whether both speak to the same client: each request has a session of its own, over what the client began with."""
    return one.client_params is other.client_params


async def _told(send: Callable[..., Any], *arguments: str) -> bool:
    """Whether the client could be told; one that is gone cannot."""
    try:
        await send(*arguments)
    except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return False
    return True
