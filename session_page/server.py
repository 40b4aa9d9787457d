"""Serves a page on loopback: the sessions of a store, with the host that opens those that act.

The server has a random token and a free port for each start. It ends with `stop`, and closes its streams with a
sentence. Called by `command`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Generator
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from uvicorn import Config
from uvicorn import Server as HttpServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine import Host, Store
from engine.core.errors import EngineError, InvalidRequestError
from engine.core.ids import SessionId
from engine.core.web_access import BACKLOG, Strangers
from engine.log.redaction import Redactor
from engine.runtime.system.peers import Endpoint, Peer, peer_of
from engine.session.pages import PageAddress
from session_page.access import HOST, Access
from session_page.actions import Actions
from session_page.app import PageApp, SessionFields, Sessions
from session_page.assembly import bundle
from session_page.feed import Feed, owners_elsewhere
from session_page.guard import FindPeer, Guard

IDLE_SECONDS: Final = 30.0
"""How long a session stays open here, and in memory, when no page shows it."""
TIDY_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 2
_UNREAD_MS: Final = 30_000
"""How long the system keeps a connection whose other end reads nothing."""


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens on loopback; 0 is any free port.

    Raises:
        InvalidRequestError: the port is taken.
    """
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise InvalidRequestError(f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port") from None
    # Accepted sockets inherit both. Without the first a body waits for the acknowledgement of its headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    unread: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
    if unread is not None:
        listening.setsockopt(socket.IPPROTO_TCP, unread, _UNREAD_MS)
    return listening


async def system_peer(server: Endpoint, client: Endpoint) -> Peer:
    """Return who has the other end of a connection, as the system tells."""
    return await anyio.to_thread.run_sync(peer_of, server, client)


def start(host: Host, store: Store, hidden: Redactor, tasks: TaskGroup) -> PageServer:
    """Serve the page of a host until it ends, in its `tasks`; for `/page`.

    Raises:
        InvalidRequestError: the front end is not installed, or no port is free.
    """
    bundle()
    server = PageServer(host, store, hidden, listen())
    tasks.start_soon(server.serve, anyio.Event())
    return server


class PageServer:
    """The page of a host's sessions.

    Args:
        host: opens the sessions that act; the caller enters it.
        store: the one of the host.
        hidden: removes secrets from everything that is sent.
        listening: where to serve; closed at the end.
    """

    def __init__(
        self,
        host: Host,
        store: Store,
        hidden: Redactor,
        listening: socket.socket,
        *,
        clock: Callable[[], float] = time.monotonic,
        find_peer: FindPeer = system_peer,
    ) -> None:
        self.access = Access(listening.getsockname()[1], clock)
        self._store = store
        self._hidden = hidden
        self._listening = listening
        self._clock = clock
        self._actions = Actions(host)
        self._feeds: dict[SessionId, Feed] = {}
        self._seen: dict[SessionId, float] = {}
        self._opening = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._first: SessionId | None = None
        app = PageApp(self.access, Sessions(self._rows, self._feed), self._actions, hidden)
        self._strangers = Strangers()
        self._app = Guard(app, self.access, find_peer, self._strangers)

    def addresses(self, session_id: SessionId) -> PageAddress:
        """Return the addresses of a session's page, with a new ticket. For `/page`."""
        access = self.access
        self.prepare(session_id)
        return PageAddress(
            access.address(session=session_id), access.address(ticket=access.ticket(), session=session_id)
        )

    def prepare(self, session_id: SessionId) -> None:
        """Read a session before a browser asks for it: a long one takes seconds."""
        self._first = session_id
        if self._tasks is not None:
            self._tasks.start_soon(self._read, session_id)

    async def _read(self, session_id: SessionId) -> None:
        with contextlib.suppress(EngineError):  # whoever asks for it is told
            await (await self._feed(session_id)).whole()

    async def serve(self, stop: anyio.Event) -> None:
        """Serve until `stop` is set.

        Raises:
            InvalidRequestError: the front end is not installed.
        """
        bundle()
        with self._listening:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                if self._first is not None:
                    tasks.start_soon(self._read, self._first)
                web = _WebServer(
                    Config(
                        self._app,
                        access_log=False,
                        lifespan="off",
                        log_config=None,
                        log_level="warning",
                        proxy_headers=False,
                        server_header=False,
                        date_header=False,
                        timeout_graceful_shutdown=_GRACE_SECONDS,
                        ws="none",
                        backlog=BACKLOG,
                        http=_protocol(self._app.forget, self._strangers),
                    )
                )
                # Connections that we cut on purpose are no errors, and `app` logs those that are.
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
                ended = anyio.Event()

                async def run() -> None:
                    await web.serve([self._listening])
                    ended.set()

                tasks.start_soon(run)
                tasks.start_soon(self._tidy)
                await stop.wait()
                for feed in self._feeds.values():
                    feed.stop()
                web.should_exit = True
                with anyio.move_on_after(_GRACE_SECONDS + 1):
                    await ended.wait()
                tasks.cancel_scope.cancel()

    async def _rows(self) -> list[SessionFields]:
        def found() -> list[SessionFields]:
            held = owners_elsewhere(self._store)
            return [
                SessionFields(
                    session_id=self._hidden.redact(row.session_id),
                    cwd=self._hidden.redact(row.cwd),
                    title=self._hidden.redact(row.title or ""),
                    created_at=row.created_at,
                    updated_at=row.updated_at,
                    events=row.events,
                    size=row.size,
                    archived=row.archived,
                    is_held=row.session_id in held,
                )
                for row in self._store.rows()
            ]

        return await anyio.to_thread.run_sync(found)

    async def _feed(self, name: str) -> Feed:
        """Return the feed of a session, with all that was committed by now."""
        session_id = SessionId(name)
        async with self._opening:
            feed = self._feeds.get(session_id)
            if feed is None or feed.end:
                await anyio.to_thread.run_sync(self._store.row, session_id)  # raises SessionNotFoundError
                feed = Feed(session_id, self._store, self._hidden, lambda: self._actions.find_id(session_id))
                self._feeds[session_id] = feed
                assert self._tasks is not None
                self._tasks.start_soon(feed.follow)
        self._seen[session_id] = self._clock()
        await feed.read()
        return feed

    async def _tidy(self) -> None:
        """Close and forget sessions that no page shows."""
        while True:
            await anyio.sleep(TIDY_SECONDS)
            now = self._clock()
            for session_id, feed in list(self._feeds.items()):
                if feed.is_watched:
                    self._seen[session_id] = now
                elif now - self._seen.get(session_id, now) > IDLE_SECONDS and await self._actions.close(feed):
                    feed.leave()
                    del self._feeds[session_id], self._seen[session_id]


def _protocol(forget: Callable[[Endpoint], None], strangers: Strangers) -> type[H11Protocol]:
    """Return a protocol that tells which connections have begun and ended."""

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore -- as uvicorn's
            super().connection_made(transport)
            strangers.arrived(self.client, transport.abort, self.loop.call_later)

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.forget(self.client)
            if self.client is not None:
                forget(self.client)
            super().connection_lost(exc)

    return Connection


class _WebServer(HttpServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield
