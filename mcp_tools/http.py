"""Serves any number of clients over streamable HTTP: `/mcp/NAME` is the session NAME, `/mcp` is `default`.

Requests without the token, to another host name, or from another origin are refused before they reach the engine. The
transport is the SDK's, for both eras. Called by `cli`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn import Server as HttpServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine import session_named
from engine.core.errors import InvalidRequestError
from engine.core.web_access import BACKLOG, Strangers
from mcp_tools.access import PATH, Access
from mcp_tools.requests import DEFAULT_SESSION
from mcp_tools.server import Service, compose
from mcp_tools.sessions import MAX_SESSIONS

if TYPE_CHECKING:
    from engine import Host

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MOST_CONNECTIONS: Final = 320
"""If there are as many, requests are refused; without a token any client may have them."""
IDLE_SECONDS: Final = 30 * 60.0
GRACE_SECONDS: Final = 2
"""Time for running calls to end during shutdown."""
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="rewindow-mcp"'}


class AccessCheck:
    """The ASGI application: refuses requests without access, and passes the others to `manager`."""

    def __init__(self, manager: StreamableHTTPSessionManager, access: Access, strangers: Strangers) -> None:
        endpoint = _Endpoint(StreamableHTTPASGIApp(manager), "anyone" if access.token is None else "token")
        routes = [Route(PATH, endpoint), Route(f"{PATH}/{{name}}", endpoint)]
        self._app = Router(routes, redirect_slashes=False)
        self._access = access
        self._strangers = strangers
        self._calls = 0
        self._idle = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        self._strangers.forget(scope["client"])
        if scope["method"] != "POST":  # a stream without an end
            await self._app(scope, receive, send)
            return
        self._calls += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        def given(header: bytes) -> list[bytes]:
            return [value for name, value in scope["headers"] if name == header]

        token = self._access.token
        if not self._access.is_host(given(b"host")):
            return PlainTextResponse("this server does not accept that host name; add it with --allow-host\n", 421)
        if not self._access.is_origin(given(b"origin")):
            return PlainTextResponse(
                "this server does not accept that origin; add its host name with --allow-host\n", 403
            )
        if token is not None and not token.is_given_by(given(b"authorization")):
            return PlainTextResponse("this server requires its bearer token\n", 401, _CHALLENGE)
        return None

    async def wait_idle(self) -> None:
        """Wait until no call is running."""
        while self._calls:
            self._idle = anyio.Event()
            await self._idle.wait()


class _Endpoint:
    """The transport, on paths that name a session.

    A session of the transport belongs to the user whose request opened it, and no other user can use it. So each path
    is a user of its own, although all share one `credential`.
    """

    def __init__(self, transport: ASGIApp, credential: str) -> None:
        self._transport = transport
        self._credential = credential

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"].get("name", DEFAULT_SESSION)
        try:
            session_named(name)
        except InvalidRequestError as error:
            await PlainTextResponse(f"{error}\n", 404)(scope, receive, send)
            return
        user = AuthenticatedUser(AccessToken(token="", client_id=self._credential, scopes=[], subject=name))
        await self._transport({**scope, "user": user}, receive, send)


def make_manager(server: Server[Any], access: Access) -> StreamableHTTPSessionManager:
    """Make the transport, with one session for each client of the handshake era, within our limits.

    It checks host names too, but only their beginning if any port may follow. `AccessCheck` compares them exactly.
    """
    hosts = [f"{name}{port}" for name in access.allowed for port in ("", ":*")]
    return StreamableHTTPSessionManager(
        server,
        security_settings=TransportSecuritySettings(
            allowed_hosts=hosts,
            allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
        ),
        session_idle_timeout=IDLE_SECONDS,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
    )


def _protocol(strangers: Strangers) -> type[H11Protocol]:
    """Return a protocol that tells which connections have begun and ended."""

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore -- as uvicorn's
            super().connection_made(transport)
            strangers.arrived(self.client, transport.abort, self.loop.call_later)

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.forget(self.client)
            super().connection_lost(exc)

    return Connection


class _WebServer(HttpServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to `serve_until_signal`."""
        yield


async def serve_http(
    make_host: Callable[[], Host],
    service: Service,
    access: Access,
    listening: socket.socket,
    *,
    stop: anyio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve until `stop` is set, then let running calls end within `GRACE_SECONDS` and close everything.

    Args:
        make_host: makes the engine; runs on a thread.
        service: the options; paths name the sessions.
        access: who may connect.
        listening: the socket of `access.address`; closed here.
        stop: set to end.
        ready: called with the URL as soon as clients can connect.
    """
    with listening:
        async with compose(make_host, service) as (server, engine, subscriptions), anyio.create_task_group() as tasks:
            manager = make_manager(server, access)
            strangers = Strangers()
            checked_app = AccessCheck(manager, access, strangers)
            web = _WebServer(
                Config(
                    checked_app,
                    access_log=False,
                    lifespan="off",
                    log_config=None,
                    log_level="warning",
                    proxy_headers=False,
                    server_header=False,
                    timeout_graceful_shutdown=GRACE_SECONDS + 1,
                    ws="none",
                    backlog=BACKLOG,
                    http=_protocol(strangers),
                    limit_concurrency=MOST_CONNECTIONS,
                )
            )
            logging.getLogger("mcp.server.streamable_http").addFilter(is_worth_logging)
            async with manager.run():
                tasks.start_soon(web.serve, [listening])
                engine.start_loading()
                ready(_url(listening))
                await stop.wait()
                web.should_exit = True
                subscriptions.close()
                logging.getLogger("uvicorn.error").setLevel(
                    logging.CRITICAL
                )  # from here on we cut connections on purpose
                with anyio.move_on_after(GRACE_SECONDS):
                    await checked_app.wait_idle()


def is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether a record of the transport is more than a client that left early.

    The transport acknowledges a notification before it handles it, and the client may leave in between.
    """
    return record.exc_info is None or not isinstance(
        record.exc_info[1], anyio.ClosedResourceError | anyio.BrokenResourceError
    )


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


async def serve_until_signal(
    make_host: Callable[[], Host], service: Service, access: Access, listening: socket.socket
) -> int:
    """Serve until SIGTERM or Ctrl-C, and print the URL to stderr. Return 128 plus the signal number."""
    stop = anyio.Event()
    token = "no token is required" if access.token is None else f"the bearer token is in {access.token.where}"

    def ready(url: str) -> None:
        sys.stderr.write(f"rewindow-mcp: serving {url}, and {url}/NAME for named sessions; {token}\n")
        sys.stderr.flush()

    received = 0
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await serve_http(make_host, service, access, listening, stop=stop, ready=ready)
                tasks.cancel_scope.cancel()

            tasks.start_soon(serve)
            async for number in signals:
                received = number
                stop.set()
    return 128 + received
