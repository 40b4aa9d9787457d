"""The connections of clients: each has an id, the token that opened it, and a link to the host of its user.

A connection over WebSocket lives as long as its socket. One over HTTP lives until it is deleted, or nothing was read
and sent on it for SILENT_SECONDS. In both cases the sessions go on: the host decides (`acp_adapter.sharing`). If a
token is revoked, its connections end within REVOKED_SECONDS, and with the last token of a user the user's host.

Over HTTP, a message from the agent goes to the stream of its session, or to that of the connection. So does a response,
but one that opens a session goes to the stream of the connection if the client does not read that of the session yet.
Otherwise it must follow the history on the same stream: two streams of HTTP/2 have no order.

Must not know HTTP. Used by `app`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET

from acp_adapter.jsonrpc.lines import Broken, LineDecoder, ParseError
from acp_adapter.listening.envelope import Envelope, envelope
from acp_adapter.listening.placement import Link, Placement
from acp_adapter.listening.streams import Budget, MessageStream
from acp_adapter.listening.users import Token, TokenFile, TokensUnreadableError, UsersError

MAX_MESSAGE: Final = 16 << 20
"""Bytes of one message from a client."""
MAX_CONNECTIONS: Final = 64
"""For each user."""
MAX_KEPT: Final = 256 << 20
"""Bytes that the streams of a user keep."""
MAX_STREAMS: Final = 128
"""Sessions of one connection that have a stream."""
SILENT_SECONDS: Final = 300.0
STALL_SECONDS: Final = 30.0
"""How long a client may read nothing while messages wait for it."""
REVOKED_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 60.0
"""How long the host may take to answer `initialize`."""
_LONGEST_LINE: Final = 256 << 20
"""Bytes of one message from a host."""
_MOST_PENDING: Final = 10_000
_ID_BYTES: Final = 24
_OPENING_METHODS: Final = ("session/load", "session/resume", "session/fork", "session/new")
"""Methods that open a session."""
_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """Raised when a user has too many connections or streams."""


class Connection:
    """One client's connection to its host."""

    def __init__(self, token: Token, link: Link) -> None:
        self.id: Final = secrets.token_urlsafe(_ID_BYTES)
        self.token: Final = token
        self.ended: Final = anyio.Event()
        """Set when the connection must end; `reason` says why."""
        self.reason = ""
        self._link = link
        self._sending: Final = anyio.Lock()

    def end(self, reason: str) -> None:
        """Let whoever serves the connection end it."""
        self.reason = self.reason or reason
        self.ended.set()

    async def send(self, message: bytes) -> None:
        """Send a message to the host. Raises OSError if the host is gone.

        A line end can only be white space in JSON, so it may become a blank.
        """
        line = message.replace(b"\n", b" ") + b"\n"
        async with self._sending:
            with anyio.CancelScope(shield=True):  # half a line would spoil the next one
                with anyio.fail_after(STALL_SECONDS):
                    await self._link.send(line)

    async def receive(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Call `take` with each message from the host, until the host ends the connection."""
        decoder = LineDecoder(_LONGEST_LINE)
        while data := await self._received():
            for frame in decoder.feed(data):
                if isinstance(frame, Broken):
                    self.end("the agent sent too long a message")
                    return
                await take(frame.data)
        self.end("the agent has ended; connect again")

    async def _received(self) -> bytes:
        try:
            return await self._link.receive()
        except OSError as error:
            _log.debug("the host ended a connection: %s", error)
            return b""

    def close(self) -> None:
        self._link.close()


class StreamedConnection(Connection):
    """A connection over HTTP: its streams, and where each message goes."""

    def __init__(self, token: Token, link: Link, budget: Budget) -> None:
        super().__init__(token, link)
        self._budget = budget
        self._streams: dict[str | None, MessageStream] = {None: MessageStream(budget)}
        """By session; None is that of the connection."""
        self._pending: dict[object, tuple[str | None, bool]] = {}
        """By the id of a request: the session of its stream, and whether the request opens that session."""
        self._asked: dict[object, str | None] = {}
        """By the id of a request of the agent: the session."""
        self._answer: anyio.Event | None = None
        self._answered: bytes = b""
        self.used = time.monotonic()

    def stream(self, session: str | None) -> MessageStream:
        """Return a stream, which is made if it is new. Raises RefusedError."""
        found = self._streams.get(session)
        if found is None:
            if len(self._streams) > MAX_STREAMS:
                raise RefusedError(f"a connection has at most {MAX_STREAMS} sessions")
            found = self._streams[session] = MessageStream(self._budget)
        return found

    @property
    def is_silent(self) -> bool:
        """Whether the client has gone without saying so."""
        is_read = any(stream.is_read for stream in self._streams.values())
        return not is_read and time.monotonic() - self.used > SILENT_SECONDS

    def note(self, message: Envelope, session: str | None) -> None:
        """Remember where the response to a request of the client goes. Raises RefusedError."""
        if not message.is_request:
            return
        if len(self._pending) >= _MOST_PENDING:
            raise RefusedError("too many requests wait for their responses")
        self._pending[_key(message.id)] = (session, message.method in _OPENING_METHODS)

    async def first_answer(self, message: bytes) -> bytes:
        """Send the first request, and return the response. Raises OSError, TimeoutError."""
        self._answer = anyio.Event()
        await self.send(message)
        with anyio.fail_after(ANSWER_SECONDS):
            while not self._answered and not self.ended.is_set():
                await self._answer.wait()
        if not self._answered:
            raise ConnectionError(self.reason)
        return self._answered

    async def take(self, line: bytes) -> None:
        """Put a message from the host on its stream; wait while the client does not read."""
        if self._answer is not None and not self._answered:
            self._answered = line
            self._answer.set()
            return
        try:
            stream = self.stream(self._route(line))
        except RefusedError as error:
            self.end(str(error))
            return
        stream.put(line)
        if self._budget.is_over:
            for each in self._streams.values():
                each.forget_read()
            if self._budget.is_over:
                self.end("the client did not read its messages")
                return
        with anyio.move_on_after(STALL_SECONDS) as waited:
            await stream.room()
        if waited.cancelled_caught:
            self.end("the client did not read its messages")

    def _route(self, line: bytes) -> str | None:
        """Return the session whose stream gets a message from the host; None for that of the connection."""
        try:
            message = envelope(line)
        except ParseError:
            return None
        if message.method is UNSET:
            session, is_opening = self._pending.pop(_key(message.id), (None, False))
            if not is_opening:
                return session
            return session if session in self._streams and self._streams[session].is_read else None
        session = message.session
        if session is None and message.cancelled is not None:
            return self._asked.get(_key(message.cancelled))
        if message.is_request:
            self._asked[_key(message.id)] = session
            if len(self._asked) > _MOST_PENDING:
                del self._asked[next(iter(self._asked))]
        return session

    def end(self, reason: str) -> None:
        super().end(reason)
        if self._answer is not None:
            self._answer.set()
        for stream in self._streams.values():
            stream.close()


def _key(request_id: object) -> object:
    """Return a key for an id of JSON-RPC: `1` and `"1"` are different."""
    return (type(request_id).__name__, str(request_id))


class Connections:
    """Every connection of this process. They are served in `tasks`."""

    def __init__(self, placement: Placement, users: TokenFile, tasks: TaskGroup) -> None:
        self._placement = placement
        self._users = users
        self._tasks = tasks
        self._open: dict[str, Connection] = {}
        self._budgets = defaultdict[str, Budget](partial(Budget, MAX_KEPT))
        """By the name of the user, as the next one."""
        self._opening: Counter[str] = Counter()

    async def open(self, token: Token) -> Connection:
        """Open a connection for a client over WebSocket; `close` it. Raises RefusedError, PlacementError."""
        connection = Connection(token, await self._link(token))
        self._open[connection.id] = connection
        return connection

    async def open_streamed(self, token: Token) -> StreamedConnection:
        """Open a connection for a client over HTTP. It closes when it ends. Raises RefusedError, PlacementError."""
        connection = StreamedConnection(token, await self._link(token), self._budgets[token.user.name])
        self._open[connection.id] = connection
        self._tasks.start_soon(self._serve, connection)
        return connection

    async def _link(self, token: Token) -> Link:
        user = token.user
        own = sum(connection.token.user.name == user.name for connection in self._open.values())
        if own + self._opening[user.name] >= MAX_CONNECTIONS:
            raise RefusedError(f"{user.name} has {MAX_CONNECTIONS} connections already")
        self._opening[user.name] += 1
        try:
            place = await self._placement.start(user)
            return await place.connect()
        finally:
            self._opening[user.name] -= 1

    async def _serve(self, connection: StreamedConnection) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.receive, connection.take)
            await connection.ended.wait()
            tasks.cancel_scope.cancel()
        self.close(connection)

    def find(self, connection_id: str, token: Token) -> StreamedConnection | None:
        """Return the connection over HTTP with that id, if it is this user's."""
        found = self._open.get(connection_id)
        if not isinstance(found, StreamedConnection) or found.token.user != token.user or found.ended.is_set():
            return None
        found.used = time.monotonic()
        return found

    def close(self, connection: Connection) -> None:
        """Forget a connection whose tasks have ended."""
        if self._open.pop(connection.id, None) is not None:
            connection.close()

    def end_all(self, reason: str) -> None:
        """End every connection."""
        for connection in [*self._open.values()]:
            connection.end(reason)

    async def watch(self) -> None:
        """End connections whose token was revoked, silent ones, and hosts of users without a token."""
        while True:
            await anyio.sleep(REVOKED_SECONDS)
            valid: Mapping[str, Token] = {}
            try:
                valid = self._users.tokens
            except TokensUnreadableError as error:
                _log.error("revoked tokens are not noticed: %s", error)
                continue
            except UsersError as error:
                _log.error("nobody can connect: %s", error)
            for connection in [*self._open.values()]:
                if connection.token.digest not in valid:
                    connection.end("the token was revoked")
                elif isinstance(connection, StreamedConnection) and connection.is_silent:
                    connection.end("the client was silent")
            known = {token.user for token in valid.values()}
            for user in self._placement.list():
                if user not in known:
                    self._tasks.start_soon(self._placement.end, user.name)
