"""A transport of bytes over a connected socket: between the process that listens on a network and a host.

Knows no message. Used on both ends.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_READ_SIZE: Final = 262_144


class SocketTransport:
    """Moves bytes over a socket, and closes it. One task may receive and one may send at a time."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def receive(self) -> bytes:
        """Return available bytes; b"" at the end of the stream. Raises OSError."""
        return await asyncio.get_running_loop().sock_recv(self._socket, _READ_SIZE)

    async def send(self, data: bytes) -> None:
        """Write all data, waiting while there is no room. Raises OSError."""
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def close(self) -> None:
        """Close the socket. No task may be receiving or sending."""
        self._socket.close()
