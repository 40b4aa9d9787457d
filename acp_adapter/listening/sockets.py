"""Accepts the sockets of clients, and keeps strangers from taking them all; hypercorn speaks HTTP on each.

A socket is a stranger's until a request on it shows a token. Strangers have a quarter of the sockets, and each has
ADMIT_SECONDS and STRANGE_BYTES. If one more arrives, the oldest has to leave, so a client with a token gets in while
others flood the server. hypercorn's own server accepts sockets until there are no descriptors, keeps those that a
client has closed, and handles so many frames at once that other clients wait.

Must not know the endpoint. Used by `server`.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.typing import ASGIFramework, LifespanState
from hypercorn.utils import wrap_app  # pyright: ignore[reportUnknownVariableType] -- its types of WSGI

from acp_adapter.listening.connections import RefusedError

ADMIT_SECONDS: Final = 10.0
"""How long a socket may stay without a valid token, its handshake of TLS included."""
STRANGE_BYTES: Final = 1 << 20
"""Bytes that a client may send without a valid token."""
ADMIT: Final = "admit"
"""The key in the state of an ASGI scope: call the value with the name of the user whose token was shown."""
_RESERVED: Final = 128
"""Descriptors for other things than sockets and connections to hosts. A client's connection needs both."""
_FEWEST: Final = 16
_PIECE: Final = 4 << 10
"""Bytes that are handled before other clients have their turn. A compressed message grows up to 1,000 times."""
_PAUSE: Final = 0.1
"""Seconds until the next attempt, when no socket can be accepted."""
_log = logging.getLogger(__name__)


class _Client(TCPServer):
    """hypercorn's server of one socket. `is_within` says whether so many more bytes are not too many."""

    def __init__(self, is_within: Callable[[int], bool], *given: Any) -> None:
        super().__init__(*given)
        self._is_within = is_within

    async def _read_data(self) -> None:
        with suppress(OSError):
            while (data := await self.reader.read(_PIECE)) and self._is_within(len(data)):
                await self.protocol.handle(RawData(data))
                await asyncio.sleep(0)
        await self.protocol.handle(Closed())
        await self.idle_task.stop()  # hypercorn waits for this before it closes the socket


class Sockets:
    """The sockets of all clients.

    Args:
        app: an ASGI application, which calls `scope["state"][ADMIT]`.
        config: hypercorn's.
        tls: for TLS.
        most: how many sockets there may be; for None a half of the descriptors that the system allows.
    """

    def __init__(self, app: object, config: Config, tls: ssl.SSLContext | None, most: int | None = None) -> None:
        if most is None:
            most = max(_FEWEST, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED) // 2)
        self._most_strangers = most // 4
        self._most_admitted = most - self._most_strangers
        self._most_of_user = self._most_admitted // 4
        self._app = wrap_app(cast("ASGIFramework", app), config.wsgi_max_body_size, "asgi")
        self._config = config
        self._tls = tls
        self._context = WorkerContext(None)
        self._strangers: dict[socket.socket, asyncio.TimerHandle] = {}
        """The oldest first."""
        self._admitted: dict[socket.socket, str] = {}
        """The users of the others."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, listening: socket.socket) -> None:
        """Serve every socket that is accepted, until this is cancelled."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                _log.error("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._strangers) >= self._most_strangers:
                self._dismiss(next(iter(self._strangers)))
            self._strangers[accepted] = loop.call_later(ADMIT_SECONDS, self._dismiss, accepted)
            # A task of asyncio, because hypercorn cannot be cancelled without a report.
            task = loop.create_task(self._serve(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def leave(self, seconds: float) -> None:
        """Let idle clients go, and the others after some time."""
        await self._context.terminated.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _serve(self, accepted: socket.socket) -> None:
        def admit(user: str) -> None:
            self._admit(accepted, user)

        def is_within(more: int) -> bool:
            nonlocal read
            read += more
            return accepted in self._admitted or read <= STRANGE_BYTES

        read = 0
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        patience: Mapping[str, Any] = {"ssl_handshake_timeout": ADMIT_SECONDS} if self._tls else {}
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls, **patience)
            try:
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                state = cast("LifespanState", {ADMIT: admit})
                await _Client(is_within, self._app, loop, self._config, self._context, state, reader, writer)
            finally:
                transport.abort()
        except OSError as error:
            accepted.close()
            _log.debug("a client left early: %s", error)
        finally:
            self._forget(accepted)

    def _admit(self, accepted: socket.socket, user: str) -> None:
        """Note that a token was shown on a socket, maybe another one than before. Raises RefusedError."""
        if self._admitted.get(accepted) == user:
            return
        if Counter(self._admitted.values())[user] >= self._most_of_user:
            raise RefusedError(f"{user} has {self._most_of_user} sockets already")
        if accepted not in self._admitted and len(self._admitted) >= self._most_admitted:
            raise RefusedError("the server has no free sockets; try again later")
        if (timer := self._strangers.pop(accepted, None)) is not None:
            timer.cancel()
        self._admitted[accepted] = user

    def _dismiss(self, accepted: socket.socket) -> None:
        """End a stranger's socket."""
        self._forget(accepted)
        with suppress(OSError):  # it has ended
            accepted.shutdown(socket.SHUT_RDWR)

    def _forget(self, accepted: socket.socket) -> None:
        if (timer := self._strangers.pop(accepted, None)) is not None:
            timer.cancel()
        self._admitted.pop(accepted, None)
