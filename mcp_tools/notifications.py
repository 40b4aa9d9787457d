"""Notifications that clients get beside responses: changed resources, and messages for the host's log.

While a client subscribes, the server looks at the followed files every second. A notification says that reading again
is worth it: a followed file differs on disk, which `tick` would adopt, or a handle shows something else than at the
last look. It never ticks. Log messages report that a namespace was rebuilt or that work stopped. A model reads the
same in `tick`; the messages are for the person who reads the host's log.

The two eras of MCP differ in how clients subscribe, and in how they choose a log level. Handlers in `requests` call
this module; `server` runs `Subscriptions.run`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

import anyio
import mcp_types as types
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
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from engine.core.errors import EngineError
from mcp_tools.resources import canonical_uri
from mcp_tools.sessions import SessionPool

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import HandleRow
    from engine.log.events import Event
    from mcp_tools.client_session import ClientSession

logger = logging.getLogger(__name__)
Context = ServerRequestContext[Any, Any]
POLL_SECONDS: Final = 1.0
MAX_SUBSCRIPTIONS: Final = 1024
"""Limit for subscriptions of the handshake era, and the same limit for streams of the newer one."""
MAX_LOG_CLIENTS: Final = 256
_LEVELS: Final[tuple[types.LoggingLevel, ...]] = get_args(types.LoggingLevel)
"""Log levels, least severe first."""
_DEFAULT_LEVEL: Final = "info"
"""For clients of the handshake era that set none; the specification leaves it to the server."""
REBUILT: Final = "the namespace was rebuilt in a new worker: {executions} of its statements ran again"


# --- subscriptions ----------------------------------------------------------------------------------------------------


class _Listeners:
    """Streams of the newer era that listen to one session."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.handler = ListenHandler(self.bus)
        self.count = 0
        self.uris = Counter[str]()
        """The URIs they subscribe to, in the clients' spelling."""


class Subscriptions:
    """The subscriptions of one server. `key` is a session's key in the pool; sessions never see each other's events."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._listening: dict[str, _Listeners] = {}
        self._legacy: dict[tuple[str, str], list[ServerSession]] = {}
        """Clients of the handshake era, by session key and URI."""
        self._seen: dict[str, Mapping[str, tuple[HandleRow, bool]]] = {}
        """Each handle at the last look, and whether its file differed, by session key and URI."""
        self._subscribed = anyio.Event()

    async def listen(
        self, key: str, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of the newer era until its client leaves. Raises MCPError if there are too many."""
        if sum(each.count for each in self._listening.values()) >= MAX_SUBSCRIPTIONS:
            raise MCPError(types.INVALID_PARAMS, f"there are already {MAX_SUBSCRIPTIONS} subscriptions, the limit")
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
        """End the streams of the newer era; their clients are notified."""
        for listeners in self._listening.values():
            listeners.handler.close()

    def subscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """Add a client of the handshake era. If there are too many, end the oldest subscription."""
        clients = self._legacy.setdefault((key, uri), [])
        if _contains(clients, client):
            return
        clients.append(client)
        self._subscribed.set()
        if sum(map(len, self._legacy.values())) > MAX_SUBSCRIPTIONS:  # HTTP clients may leave without a word
            oldest = next(iter(self._legacy))
            self.unsubscribe(*oldest, self._legacy[oldest][0])

    def unsubscribe(self, key: str, uri: str, client: ServerSession) -> None:
        """Remove a client of the handshake era."""
        clients = [each for each in self._legacy.get((key, uri), ()) if not _is_same(each, client)]
        if clients:
            self._legacy[key, uri] = clients
        else:
            self._legacy.pop((key, uri), None)

    async def publish_list_changed(self, key: str, client: ServerSession) -> None:
        """Notify that this client opened or closed handles; it is notified, too."""
        await self._publish(key, ResourcesListChanged())
        clients = [client]
        for (subscribed, _), others in self._legacy.items():
            clients += [each for each in others if subscribed == key and not _contains(clients, each)]
        for each in clients:
            await _send(each.send_resource_list_changed)

    async def run(self) -> None:
        """Look at followed files and notify subscribers, until cancelled."""
        while True:
            # A new subscriber must not miss a change, so its first look happens at once.
            with anyio.move_on_after(POLL_SECONDS):
                await self._subscribed.wait()
            self._subscribed = anyio.Event()
            wanted = {*self._listening, *(key for key, _ in self._legacy)}
            self._seen = {key: seen for key, seen in self._seen.items() if key in wanted}
            for key, session in self._pool.awake():
                if key in wanted:
                    try:
                        await self._look(key, session)
                    except EngineError as error:
                        logger.info("cannot check the handles: %s", error)

    async def _look(self, key: str, session: ClientSession) -> None:
        looked = await session.engine_session.look(at_sources=True)
        now = {f"{row.obj_type}://{row.name}": (row, row.obj_id in looked.stale) for row in looked.rows}
        before = self._seen.get(key, {})
        self._seen[key] = now
        spellings = self._other_spellings(key, session, now)
        for uri, (row, is_stale) in now.items():
            # The file of a new handle may have changed between its opening and this look.
            if before.get(uri, (row, False)) != (row, is_stale):
                for each in (uri, *spellings.get(uri, ())):
                    await self._publish_updated(key, each)

    def _other_spellings(self, key: str, session: ClientSession, known: Iterable[str]) -> Mapping[str, list[str]]:
        """Other URIs that clients subscribed to, by the canonical URI of the same handle."""
        wanted = dict.fromkeys(uri for subscribed, uri in self._legacy if subscribed == key)
        if (listeners := self._listening.get(key)) is not None:
            wanted |= dict.fromkeys(listeners.uris)
        spellings: dict[str, list[str]] = {}
        for uri in wanted.keys() - known:
            spellings.setdefault(canonical_uri(session, uri), []).append(uri)
        return spellings

    async def _publish_updated(self, key: str, uri: str) -> None:
        await self._publish(key, ResourceUpdated(uri=uri))
        for client in list(self._legacy.get((key, uri), ())):
            if not await _send(client.send_resource_updated, uri):
                self.unsubscribe(key, uri, client)

    async def _publish(self, key: str, event: ServerEvent) -> None:
        listeners = self._listening.get(key)
        if listeners is not None:
            await listeners.bus.publish(event)


def _contains(clients: Iterable[ServerSession], client: ServerSession) -> bool:
    return any(_is_same(client, each) for each in clients)


def _is_same(one: ServerSession, other: ServerSession) -> bool:
    """Whether both belong to the same client: each request has its own session, with shared client parameters."""
    return one.client_params is other.client_params


async def _send(send: Callable[..., Any], *arguments: str) -> bool:
    """Send a notification; return False if the client is gone."""
    try:
        await send(*arguments)
    except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return False
    return True


# --- log messages -----------------------------------------------------------------------------------------------------


class LogMessages:
    """Log messages to clients, and the levels that clients of the handshake era set.

    Those levels last as long as the connection. Clients of the newer era name a level in each request, or get no
    messages. The newer version of the protocol deprecates logging, so nothing else depends on it.
    """

    def __init__(self) -> None:
        self._levels: dict[int, tuple[types.InitializeRequestParams | None, types.LoggingLevel]] = {}
        """By the identity of the client's parameters. The entry keeps these alive, so the identity stays unique."""

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Handle `logging/setLevel` of the handshake era."""
        client = ctx.session.client_params
        self._levels.pop(id(client), None)
        self._levels[id(client)] = client, params.level
        if len(self._levels) > MAX_LOG_CLIENTS:  # the oldest client gets the default level again
            del self._levels[next(iter(self._levels))]
        return types.EmptyResult()

    async def send(self, ctx: Context, events: Iterable[Event]) -> None:
        """Send messages about the events, as part of the response to a request."""
        for level, text in _messages(events):
            if _LEVELS.index(level) >= self._threshold(ctx):
                message = types.LoggingMessageNotificationParams(level=level, data=text, logger="rewindow")
                await ctx.session.send_notification(
                    types.LoggingMessageNotification(params=message), related_request_id=ctx.request_id
                )

    def _threshold(self, ctx: Context) -> int:
        """The index in `_LEVELS` of the client's level; past the end if it wants no messages."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            level = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
            return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)
        return _LEVELS.index(self._levels.get(id(ctx.session.client_params), (None, _DEFAULT_LEVEL))[1])


def _messages(events: Iterable[Event]) -> Iterable[tuple[types.LoggingLevel, str]]:
    from engine.log.events.session import EnvironmentRestored, WorkStopped  # after the first response

    for event in events:
        match event:
            case WorkStopped(sentences=sentences):
                for sentence in sentences:
                    yield "warning", sentence
            case EnvironmentRestored(executions=executions, sentences=sentences):
                yield "info", REBUILT.format(executions=executions)
                for sentence in sentences:
                    yield "warning", sentence
            case _:
                pass
