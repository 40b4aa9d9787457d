"""Serves the connections of one user: a host without a client of its own, in a process of that user.

The process that listens on the network (`listening`) starts it, and sends it one end of a socket pair for each
connection, over a control socket that both have from the start. So nobody else can reach it, and it needs no token. Its
end of the control socket ends when the listening process is gone, and then it ends, too. A process that may be stopped
without an end, as in a cluster, also sends beats. Once it did, the host ends when SILENT_SECONDS pass without one.

The listening process asks now and then how the host is. The answer says how many connections the host has received, and
whether it has had none and no open session for a while. If that number is the number of connections sent, none is on
its way, so the listening process can end the host without losing one. A host that does not answer hangs.

Called by the command line.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from acp_adapter.control import ANSWER, ASK, BEAT, SILENT_SECONDS
from acp_adapter.jsonrpc.sockets import SocketTransport
from acp_adapter.server import serve_client
from acp_adapter.sharing import IDLE_SECONDS, Sharing
from engine import Host

LINGER_SECONDS: Final = 60.0
"""How long a host stays that has no connection and no open session: the next client may come soon."""
_MOST_AT_ONCE: Final = 16
_log = logging.getLogger(__name__)


class _Usage:
    """Whether the host is used, and since when not."""

    def __init__(self, sharing: Sharing, linger: float) -> None:
        self.received = 0
        self.served = 0
        """Connections that are served now."""
        self._sharing = sharing
        self._linger = linger
        self._used = time.monotonic()

    def answer(self) -> bytes:
        now = time.monotonic()
        if self.served or self._sharing.has_open:
            self._used = now
        return ANSWER.pack(now - self._used >= self._linger, self.received)


async def serve_connections(
    control: int, host: Host, when_ready: Callable[[], None], idle_minutes: float | None = None
) -> None:
    """Serve each connection that arrives on the control socket, until that is closed at its other end.

    A session that no connection has is closed after `idle_minutes`, if they are given.
    """
    idle_seconds = IDLE_SECONDS if idle_minutes is None else 60 * idle_minutes
    with socket.socket(fileno=control) as receiving:
        receiving.setblocking(False)
        async with host, anyio.create_task_group() as tasks:
            sharing = Sharing(host, tasks, idle_seconds=idle_seconds)
            usage = _Usage(sharing, min(idle_seconds, LINGER_SECONDS))
            first_ready = _once(when_ready)
            patience: float | None = None
            while True:
                data = b""
                with anyio.move_on_after(patience):
                    data, connections = await _receive(receiving)
                    usage.received += len(connections)
                    for connection in connections:
                        usage.served += 1
                        tasks.start_soon(_serve, connection, host, first_ready, sharing, usage)
                if not data:
                    break
                if BEAT in data:
                    patience = SILENT_SECONDS
                if ASK in data:
                    with suppress(OSError):  # whoever asked does not read
                        receiving.send(usage.answer())
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


async def _serve(connection: int, host: Host, when_ready: Callable[[], None], sharing: Sharing, usage: _Usage) -> None:
    transport = SocketTransport(socket.socket(fileno=connection))
    try:
        await serve_client(transport, host, when_ready, sharing)
    except Exception:
        _log.exception("A connection failed")  # the others go on
    finally:
        usage.served -= 1
        transport.close()
