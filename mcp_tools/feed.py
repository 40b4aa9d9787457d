"""Who is told that a resource has changed, and when: a look at the sources each second, while anybody subscribes.

A cue says that reading again is worth it: a file that is followed has changed, which `tick` adopts, or a handle shows
something else than at the last look. It never ticks. Both eras have their own way to subscribe and to be told. Called
by `server`; run by `serving`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult

from engine.core.errors import EngineError
from mcp_tools.sessions import BenchPool

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import HandleRow
    from mcp_tools.bench import Bench

logger = logging.getLogger(__name__)
POLL_SECONDS: Final = 1.0
MOST_SUBSCRIPTIONS: Final = 1024
"""Of resources by clients of the handshake era, and streams of the newer one, each together."""


class _Listeners:
    """Who listens to one session, in the newer era."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.handler = ListenHandler(self.bus)
        self.count = 0
        self.uris = Counter[str]()
        """Those that they subscribe to, as they wrote them."""


class Feed:
    """The subscriptions of one server. `key` is a session's, as `BenchPool` has it: nobody is told of another one."""

    def __init__(self, pool: BenchPool, canonical: Callable[[Bench, str], str]) -> None:
        """`canonical` is the URI by which a resource is listed, of any that a client may write for it."""
        self._pool = pool
        self._canonical = canonical
        self._listening: dict[str, _Listeners] = {}
        self._legacy: dict[tuple[str, str], list[ServerSession]] = {}
        """Of the handshake era, by the key of the session and the URI."""
        self._seen: dict[str, Mapping[str, tuple[HandleRow, bool]]] = {}
        """What each handle was like at the last look, and whether its file differed, by session and URI."""
        self._subscribed = anyio.Event()

    async def listen(
        self, key: str, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serves one stream of the newer era, until its client leaves. Raises MCPError where there are too many."""
        if sum(each.count for each in self._listening.values()) >= MOST_SUBSCRIPTIONS:
            raise _too_many()
        listeners = self._listening.setdefault(key, _Listeners())
        listeners.count += 1
        uris = params.notifications.resource_subscriptions or ()
        listeners.uris.update(uris)
        self._subscribed.set()
        try:
            return await listeners.handler(ctx, params)
        finally:
            listeners.count -= 1
            listeners.uris -= Counter(uris)
            if not listeners.count:
                del self._listening[key]

    def close(self) -> None:
        """Ends the streams of the newer era, which their clients are told."""
        for listeners in self._listening.values():
            listeners.handler.close()

    def subscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """A client of the handshake era wants to be told. Where there are too many, the oldest subscription ends."""
        clients = self._legacy.setdefault((key, uri), [])
        if _is_among(client, clients):
            return
        clients.append(client)
        self._subscribed.set()
        if sum(map(len, self._legacy.values())) > MOST_SUBSCRIPTIONS:  # who is gone over HTTP does not always say so
            oldest = next(iter(self._legacy))
            self.unsubscribe(*oldest, self._legacy[oldest][0])

    def unsubscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """It does not want to any more."""
        clients = [each for each in self._legacy.get((key, uri), ()) if not _is_same(each, client)]
        if clients:
            self._legacy[key, uri] = clients
        else:
            self._legacy.pop((key, uri), None)

    async def listed_anew(self, key: str, client: ServerSession) -> None:
        """Handles were opened or closed by that client."""
        await self._publish(key, ResourcesListChanged())
        clients = [client]
        for (subscribed, _), others in self._legacy.items():
            clients += [each for each in others if subscribed == key and not _is_among(each, clients)]
        for each in clients:
            await _told(each.send_resource_list_changed)

    async def serve(self) -> None:
        """Looks and tells, until it is cancelled."""
        while True:
            # Who has just subscribed is to be told of whatever comes after, so the first look does not wait.
            with anyio.move_on_after(POLL_SECONDS):
                await self._subscribed.wait()
            self._subscribed = anyio.Event()
            wanted = {*self._listening, *(key for key, _ in self._legacy)}
            self._seen = {key: seen for key, seen in self._seen.items() if key in wanted}
            for key, bench in self._pool.awake():
                if key in wanted:
                    try:
                        await self._look(key, bench)
                    except EngineError as error:
                        logger.info("no look at the handles: %s", error)

    async def _look(self, key: str, bench: Bench) -> None:
        looked = await bench.session.look(at_sources=True)
        now = {f"{row.obj_type}://{row.name}": (row, row.obj_id in looked.stale) for row in looked.rows}
        before = self._seen.get(key, {})
        self._seen[key] = now
        others = self._others(key, bench, now)
        for uri, (row, is_stale) in now.items():
            # Of a handle that was not seen before, the file may have changed between its opening and this look.
            if before.get(uri, (row, False)) != (row, is_stale):
                for each in (uri, *others.get(uri, ())):
                    await self._tell(key, each)

    def _others(self, key: str, bench: Bench, known: Iterable[str]) -> Mapping[str, list[str]]:
        """The URIs that clients wrote otherwise and subscribed to, by those of the handles that they mean."""
        wanted = dict.fromkeys(uri for subscribed, uri in self._legacy if subscribed == key)
        if (listeners := self._listening.get(key)) is not None:
            wanted |= dict.fromkeys(listeners.uris)
        others: dict[str, list[str]] = {}
        for uri in wanted.keys() - known:
            others.setdefault(self._canonical(bench, uri), []).append(uri)
        return others

    async def _tell(self, key: str, uri: str) -> None:
        await self._publish(key, ResourceUpdated(uri=uri))
        for client in list(self._legacy.get((key, uri), ())):
            if not await _told(client.send_resource_updated, uri):
                self.unsubscribe(key, uri, client)

    async def _publish(self, key: str, event: ServerEvent) -> None:
        listeners = self._listening.get(key)
        if listeners is not None:
            await listeners.bus.publish(event)


def _too_many() -> MCPError:
    return MCPError(INVALID_PARAMS, f"there are {MOST_SUBSCRIPTIONS} subscriptions, the most there can be")


def _is_among(one: ServerSession, others: Iterable[ServerSession]) -> bool:
    return any(_is_same(one, each) for each in others)


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
