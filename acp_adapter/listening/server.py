"""Serves the endpoint with hypercorn until a signal: HTTP/1.1, HTTP/2 with TLS or without, and WebSocket.

hypercorn, because the streamable form of the proposal requires HTTP/2, which uvicorn lacks. Called by `command`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import anyio
from hypercorn.config import Config

from acp_adapter.listening.app import PATH, App
from acp_adapter.listening.connections import MAX_MESSAGE, Connections
from acp_adapter.listening.placement import Placement
from acp_adapter.listening.sockets import Sockets
from acp_adapter.listening.users import TokenFile
from engine.core.web_access import Names

PING_SECONDS: Final = 20.0
"""How often a WebSocket is pinged."""
GRACE_SECONDS: Final = 2.0
"""Time for clients to get the last messages."""
_IDLE_SECONDS: Final = 75.0
"""How long a connection of HTTP stays open without a request."""
_MANY: Final = 1 << 30
_HEADER_BYTES: Final = 1 << 14
_log = logging.getLogger(__name__)


async def listen(
    listening: socket.socket,
    placement: Placement,
    users: TokenFile,
    names: Names,
    *,
    tls: tuple[str, str] | None,
    stop: anyio.Event,
    ready: Callable[[], None],
) -> None:
    """Serve until `stop` is set, then end every connection and every host.

    Args:
        listening: the socket; closed here.
        placement: where hosts run.
        users: who may connect.
        names: host names of the server.
        tls: the files of the certificate and of its key.
        stop: set to end.
        ready: called when clients can connect.
    """
    try:
        async with anyio.create_task_group() as tasks:
            connections = Connections(placement, users, tasks)
            app = App(connections, users, names, is_secure=tls is not None)
            tasks.start_soon(connections.watch)
            tasks.start_soon(placement.tend)
            asyncio.get_running_loop().set_exception_handler(_log_quietly)
            config = _config(tls)
            sockets = Sockets(app, config, None if tls is None else config.create_ssl_context())
            async with anyio.create_task_group() as accepting:
                accepting.start_soon(sockets.accept, listening)
                ready()
                await stop.wait()
                accepting.cancel_scope.cancel()
            listening.close()
            connections.end_all("the server is shutting down")
            await sockets.leave(GRACE_SECONDS)
            tasks.cancel_scope.cancel()
    finally:
        listening.close()
        with anyio.CancelScope(shield=True):
            await placement.leave()


def _log_quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a connection of HTTP failed with: a client can cause it at will, and it concerns that client alone."""
    _log.debug("a connection failed: %s", context.get("message"), exc_info=context.get("exception"))


def _config(tls: tuple[str, str] | None) -> Config:
    config = Config()
    if tls is not None:
        config.certfile, config.keyfile = tls
    logger = logging.getLogger("rewindow-acp.http")
    logger.setLevel(logging.ERROR)
    config.errorlog = logger
    config.accesslog = None
    config.include_server_header = False
    config.keep_alive_timeout = _IDLE_SECONDS
    config.keep_alive_max_requests = _MANY  # a connection of HTTP/2 carries all requests of a client
    config.h2_max_header_list_size = _HEADER_BYTES
    config.websocket_max_message_size = MAX_MESSAGE
    config.websocket_ping_interval = PING_SECONDS
    return config


async def listen_until_signal(
    listening: socket.socket, placement: Placement, users: TokenFile, names: Names, tls: tuple[str, str] | None
) -> int:
    """Serve until SIGTERM or Ctrl-C, and print the address to stderr. Return 128 plus the signal number."""
    stop = anyio.Event()
    host, port = listening.getsockname()[:2]
    scheme = "http" if tls is None else "https"

    def ready() -> None:
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        sys.stderr.write(f"rewindow-acp: serving {address}; the tokens are in {users.path}\n")
        sys.stderr.flush()

    received = 0
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await listen(listening, placement, users, names, tls=tls, stop=stop, ready=ready)
                tasks.cancel_scope.cancel()

            tasks.start_soon(run)
            async for number in signals:
                received = received or number
                stop.set()
    return 128 + received
