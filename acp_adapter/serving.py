"""Serves one client from its first byte to its last: puts transport, peer, methods, connection and host together.

The composition of the adapter. Must not know what a method does. Called by the command line, and by tests with a
transport and a host of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from acp_adapter.connection import Connection
from acp_adapter.errors import to_error
from acp_adapter.handlers import METHODS
from acp_adapter.rpc.peer import Peer
from acp_adapter.rpc.stdio import StdioTransport
from acp_adapter.rpc.transport import Transport
from acp_adapter.wire.display import display_encoder
from engine import Host

DRAIN_SECONDS: Final = 5.0
"""How long answers may take after the client closed its end; a statement that ignores SIGINT needs its grace."""


def _nothing() -> None:
    pass


async def serve(transport: Transport, host: Host, when_ready: Callable[[], None] = _nothing) -> None:
    """Serves the client until it is gone, then closes what it had open.

    Args:
        transport: to the client; left open.
        host: the engine; entered here, so that it is closed with what it opened.
        when_ready: called once, when the first session was shown and everything is loaded.
    """
    async with host, anyio.create_task_group() as tasks:
        connection = Connection(host, tasks, when_ready)
        await connection.prepare("answering")
        peer = Peer(
            transport,
            METHODS,
            connection,
            codec=connection.codec,
            to_error=to_error,
            admit=connection.admit,
            on_eof=connection.client_left,
            encode=display_encoder(host.redactor),
            grace=DRAIN_SECONDS,
        )
        await peer.run()
        tasks.cancel_scope.cancel()


async def serve_descriptors(read_fd: int, write_fd: int, host: Host, when_ready: Callable[[], None]) -> None:
    """Serves one client on two descriptors, which it closes at the end."""
    transport = StdioTransport(read_fd, write_fd)
    try:
        await serve(transport, host, when_ready)
    finally:
        transport.close()
