"""Serves any number of clients over streamable HTTP: `/mcp/NAME` is the session of that name, `/mcp` is `default`.

Whoever has no token, and whatever was addressed to a name that is not ours, is turned away before anything of the
engine is touched. The transport is the SDK's, for both eras. Called by the command line.
"""

from __future__ import annotations

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

from engine import session_named
from engine.core.errors import InvalidRequestError
from mcp_tools.access import PATH, Access
from mcp_tools.places import DEFAULT_SESSION
from mcp_tools.serving import Service, composed
from mcp_tools.sessions import MOST_SESSIONS

if TYPE_CHECKING:
    from engine import Host

MOST_BODY_BYTES: Final = 4 * 1024 * 1024
IDLE_SECONDS: Final = 30 * 60.0
GRACE_SECONDS: Final = 2
"""How long calls under way may take to their end once the server is to end."""
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="rewindow-mcp"'}


class Gate:
    """What a web server serves while `manager` runs: refuses requests for other names, of other pages, or tokenless."""

    def __init__(self, manager: StreamableHTTPSessionManager, access: Access) -> None:
        endpoint = _Endpoint(StreamableHTTPASGIApp(manager), "anyone" if access.token is None else "token")
        routes = [Route(PATH, endpoint), Route(f"{PATH}/{{name}}", endpoint)]
        self._app = Router(routes, redirect_slashes=False)
        self._access = access
        self._calls = 0
        self._none_left = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        if scope["method"] != "POST":  # a stream, which has no end of its own
            await self._app(scope, receive, send)
            return
        self._calls += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._calls -= 1
            if not self._calls:
                self._none_left.set()

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        def given(header: bytes) -> list[bytes]:
            return [value for name, value in scope["headers"] if name == header]

        token = self._access.token
        if not self._access.is_host(given(b"host")):
            return PlainTextResponse("this server does not go by that name; --allow-host adds one\n", 421)
        if not self._access.is_origin(given(b"origin")):
            return PlainTextResponse("pages of that origin may not use this server; --allow-host adds one\n", 403)
        if token is not None and not token.is_given_by(given(b"authorization")):
            return PlainTextResponse("this server asks for its bearer token\n", 401, _CHALLENGE)
        return None

    async def no_calls(self) -> None:
        """Waits until none is under way."""
        while self._calls:
            self._none_left = anyio.Event()
            await self._none_left.wait()


class _Endpoint:
    """The transport, for paths that can name a session.

    The transport's own sessions belong to the user of the request that opened them, and it knows them for no other. So
    who asks on another path is another user, although there is one `credential`.
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
    """The transport's own sessions, one per client of the handshake era, within our limits.

    It looks at names, too, but only at how they begin where any port may follow: `Gate` has compared them before.
    """
    hosts = [f"{name}{port}" for name in access.allowed for port in ("", ":*")]
    return StreamableHTTPSessionManager(
        server,
        security_settings=TransportSecuritySettings(
            allowed_hosts=hosts,
            allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
        ),
        session_idle_timeout=IDLE_SECONDS,
        max_request_body_size=MOST_BODY_BYTES,
        max_sessions=MOST_SESSIONS,
    )


class _WebServer(HttpServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to whoever serves."""
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
    """Serves until `stop`; then calls under way have a moment, and all that was opened is closed.

    Args:
        make_host: makes the engine, on a thread.
        service: what is served; the paths name the sessions.
        access: who may reach it.
        listening: where, as `access.address` gives it. Closed here.
        stop: set when it is to end.
        ready: given the URL, which can be reached from then on.
    """
    with listening:
        async with composed(make_host, service) as (server, engine, feed), anyio.create_task_group() as tasks:
            manager = make_manager(server, access)
            gate = Gate(manager, access)
            web = _WebServer(
                Config(
                    gate,
                    access_log=False,
                    lifespan="off",
                    log_config=None,
                    log_level="warning",
                    proxy_headers=False,
                    server_header=False,
                    timeout_graceful_shutdown=GRACE_SECONDS + 1,
                    ws="none",
                )
            )
            logging.getLogger("mcp.server.streamable_http").addFilter(is_worth_telling)
            async with manager.run():
                tasks.start_soon(web.serve, [listening])
                engine.want()
                ready(_url(listening))
                await stop.wait()
                web.should_exit = True
                feed.close()
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut short from here on, we cut
                with anyio.move_on_after(GRACE_SECONDS):
                    await gate.no_calls()


def is_worth_telling(record: logging.LogRecord) -> bool:
    """Whether what the transport logs is more than that a client has closed its session before it was served.

    A notification is answered first and passed on then, and by that time the client may have gone.
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
    """Serves until SIGTERM or Ctrl-C, and says on stderr where. Returns 128 and the number of the signal."""
    stop = anyio.Event()
    token = "no token is asked for" if access.token is None else f"the bearer token is in {access.token.where}"

    def ready(url: str) -> None:
        sys.stderr.write(f"rewindow-mcp: serving {url}, and {url}/NAME for each session of a name; {token}\n")
        sys.stderr.flush()

    caught = 0
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await serve_http(make_host, service, access, listening, stop=stop, ready=ready)
                tasks.cancel_scope.cancel()

            tasks.start_soon(serve)
            async for number in signals:
                caught = number
                stop.set()
    return 128 + caught
