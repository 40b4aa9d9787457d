"""Serves the connections of one user: a host without a client of its own, in a process of that user.

The process that listens on the network (`listening`) starts it, and sends it one end of a socket pair for each
connection, over a control socket that both have from the start. So nobody else can reach it, and it needs no token. Its
end of the control socket ends when the listening process is gone, and then it ends, too. A process that may be stopped
without an end, as in a cluster, also sends beats. Once it did, the host ends when SILENT_SECONDS pass without one.

Called by the command line.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

import anyio

from acp_adapter.jsonrpc.sockets import SocketTransport
from acp_adapter.server import serve_client
from acp_adapter.sharing import Sharing
from engine import Host

OPTION: Final = "--connections"
"""The hidden option of `rewindow-acp` that begins this, with the number of the control socket."""
BEAT: Final = b"b"
CONNECTION: Final = b"c"
"""What is sent with a descriptor."""
SILENT_SECONDS: Final = 10.0
_MOST_AT_ONCE: Final = 16
_log = logging.getLogger(__name__)


async def serve_connections(control: int, host: Host, when_ready: Callable[[], None]) -> None:
    """Serve each connection that arrives on the control socket, until that is closed at its other end."""
    with socket.socket(fileno=control) as receiving:
        receiving.setblocking(False)
        async with host, anyio.create_task_group() as tasks:
            sharing = Sharing(host, tasks)
            first_ready = _once(when_ready)
            patience: float | None = None
            while True:
                data = b""
                with anyio.move_on_after(patience):
                    data, connections = await _receive(receiving)
                    for connection in connections:
                        tasks.start_soon(_serve, connection, host, first_ready, sharing)
                if not data:
                    break
                if BEAT in data:
                    patience = SILENT_SECONDS
            tasks.cancel_scope.cancel()


def _once(act: Callable[[], None]) -> Callable[[], None]:
    """Return what calls `act` the first time alone: garbage of the connections that follow must stay collectable."""
    acts = [act]
    return lambda: acts.pop()() if acts else None


async def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """Wait for connections and beats; return what was sent, with descriptors; nothing at the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, _MOST_AT_ONCE, _MOST_AT_ONCE)
        except BlockingIOError:
            arrival = asyncio.Event()
            loop.add_reader(control, arrival.set)
            try:
                await arrival.wait()
            finally:
                loop.remove_reader(control)
        except OSError as error:
            _log.debug("the control socket ended: %s", error)
            return b"", []
        else:
            return data, descriptors


async def _serve(connection: int, host: Host, when_ready: Callable[[], None], sharing: Sharing) -> None:
    transport = SocketTransport(socket.socket(fileno=connection))
    try:
        await serve_client(transport, host, when_ready, sharing)
    except Exception:
        _log.exception("A connection failed")  # the others go on
    finally:
        transport.close()
