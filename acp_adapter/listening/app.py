"""The endpoint `/acp`: a WebSocket, or POST, GET and DELETE, as ACP's proposal "Streamable HTTP & WebSocket" says.

The proposal: https://agentclientprotocol.com/rfds/streamable-http-websocket-transport, revision of 2026-07-02. What it
leaves open, and where we differ (`docs/remote.md` says why):
- sessions outlive their connection, also one that was deleted
- a GET stream has positions, and honours `Last-Event-ID`; 409 for one that is not kept any more
- a second GET of a stream replaces the first one, whose network may be gone
- HTTP/1.1 is served too, because clients use it where they find no TLS

A request without a valid token, to another host name, or from another origin is refused before anything else is looked
at. An unknown connection and another user's get the same answer.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final

import anyio
from msgspec import UNSET
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from acp_adapter.jsonrpc.lines import ParseError
from acp_adapter.listening.connections import (
    MAX_MESSAGE,
    STALL_SECONDS,
    Connection,
    Connections,
    RefusedError,
    StreamedConnection,
)
from acp_adapter.listening.envelope import Envelope, envelope
from acp_adapter.listening.placement import PlacementError
from acp_adapter.listening.sockets import ADMIT
from acp_adapter.listening.streams import PositionLostError
from acp_adapter.listening.users import Token, TokenFile, UsersError
from engine.core.web_access import Names

PATH: Final = "/acp"
CONNECTION_ID: Final = "Acp-Connection-Id"
SESSION_ID: Final = "Acp-Session-Id"
COOKIE: Final = "acp_affinity"
PING_SECONDS: Final = 15.0
"""How often an idle stream gets a comment: proxies cut streams that are silent for long."""
RETRY_MS: Final = 1_000
DRAIN_SECONDS: Final = 10.0
MOST_DRAINED: Final = 256 << 20
"""Bytes of a body that is too long which are skipped. After more, or DRAIN_SECONDS, its connection is closed."""
_MAX_ID: Final = 256
"""Characters of an id in a header."""
_POSITION_DIGITS: Final = 15
_JSON: Final = "application/json"
_EVENT_STREAM: Final = "text/event-stream"
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="rewindow-acp"'}
_SESSION_METHODS: Final = frozenset((
    "session/cancel", "session/close", "session/delete", "session/fork", "session/load", "session/prompt",
    "session/resume", "session/set_config_option", "session/set_mode",
))  # fmt: skip
"""Methods that are about a session even if their params do not name one."""
WRONG_HOST: Final = "this server does not accept that host name; add it with --allow-host"
WRONG_ORIGIN: Final = "this server does not accept that origin; add its host name with --allow-host"
UNAUTHORIZED: Final = "this server requires a bearer token; `rewindow-acp tokens add USER` makes one"
UNKNOWN: Final = "no such connection; send initialize without Acp-Connection-Id"
LOST: Final = "messages after that position are not kept any more; load the session again"
_POLICY_VIOLATION, _INTERNAL, _GOING_AWAY = 1008, 1011, 1001
_log = logging.getLogger(__name__)


class RefusalError(Exception):
    """Raised to answer a request with a status and a sentence."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.response = PlainTextResponse(f"{sentence}\n", status, headers)


class App:
    """The ASGI application."""

    def __init__(self, connections: Connections, users: TokenFile, names: Names, *, is_secure: bool) -> None:
        """`is_secure`: clients use TLS, so cookies may require it."""
        self._connections = connections
        self._users = users
        self._names = names
        flags = "; Path=/acp; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        self._cookie: Final = f"{COOKIE}={secrets.token_urlsafe(12)}{flags}"
        """The same for all connections of this process, so that a load balancer can find it again."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return  # there is no other protocol
        body = _Body(receive)
        try:
            token = self._admitted(scope)
            if scope["type"] == "websocket":
                await self._websocket(token, scope, receive, send)
            else:
                await self._http(token, scope, body, send)
        except RefusalError as refusal:
            if scope["type"] == "http":
                await body.skip()
            await refusal.response(scope, receive, send)

    def _admitted(self, scope: Scope) -> Token:
        """Return the token of a request. Raises RefusalError."""
        if not self._names.is_host(_all(scope, "host") or _authority(scope)):
            raise RefusalError(421, WRONG_HOST)
        if not self._names.is_origin(_all(scope, "origin")):
            raise RefusalError(403, WRONG_ORIGIN)
        try:
            token = self._users.find(_all(scope, "authorization"))
        except UsersError as error:
            _log.error("nobody can connect: %s", error)
            token = None
        if token is None:
            raise RefusalError(401, UNAUTHORIZED, _CHALLENGE)
        try:
            scope["state"][ADMIT](token.user.name)
        except RefusedError as error:
            raise RefusalError(429, str(error)) from None
        if scope["path"] != PATH:
            raise RefusalError(404, f"the only endpoint is {PATH}")
        return token

    # --- WebSocket ----------------------------------------------------------------------------------------------------

    async def _websocket(self, token: Token, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            connection = await self._connections.open(token)
        except (RefusedError, PlacementError) as error:
            raise _unavailable(error) from None
        try:
            await self._serve_websocket(connection, receive, send)
        finally:
            self._connections.close(connection)

    async def _serve_websocket(self, connection: Connection, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        headers = [(CONNECTION_ID.lower().encode(), connection.id.encode()), (b"set-cookie", self._cookie.encode())]
        await send({"type": "websocket.accept", "headers": headers})

        async def take(line: bytes) -> None:
            with anyio.move_on_after(STALL_SECONDS) as waited:
                await send({"type": "websocket.send", "text": line.decode()})
            if waited.cancelled_caught:
                connection.end("the client did not read its messages")

        async def read() -> None:
            while (message := await receive())["type"] == "websocket.receive":
                text: str | None = message.get("text")
                if text is not None:  # the proposal: binary frames are ignored
                    await connection.send(text.encode("utf-8", "replace"))
            is_left.append(None)
            connection.end("the client has left")

        is_left: list[None] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.receive, take)
            tasks.start_soon(_ending, connection, read)
            await connection.ended.wait()
            tasks.cancel_scope.cancel()
        if not is_left:
            code = _POLICY_VIOLATION if "token" in connection.reason else _GOING_AWAY
            with anyio.move_on_after(1):
                await send({"type": "websocket.close", "code": code, "reason": connection.reason})

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    async def _http(self, token: Token, scope: Scope, receive: _Body, send: Send) -> None:
        match scope["method"]:
            case "POST":
                response = await self._post(token, scope, receive)
                response.headers.append("Set-Cookie", self._cookie)
                await response(scope, receive, send)
            case "GET":
                await self._get(token, scope, receive, send)
            case "DELETE":
                self._connection(token, scope).end("the client deleted the connection")
                await Response(status_code=202)(scope, receive, send)
            case _:
                raise RefusalError(405, "use GET, POST or DELETE", {"Allow": "GET, POST, DELETE"})

    def _connection(self, token: Token, scope: Scope) -> StreamedConnection:
        """Return the connection that a request names. Raises RefusalError."""
        given = _header(scope, CONNECTION_ID)
        if given is None:
            raise RefusalError(400, f"{CONNECTION_ID} is missing")
        found = self._connections.find(given, token)
        if found is None:
            raise RefusalError(404, UNKNOWN)
        return found

    async def _post(self, token: Token, scope: Scope, given: _Body) -> Response:
        kind = (_header(scope, "Content-Type") or "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise RefusalError(415, "send application/json")
        body = await given.read()
        message = _message(body)
        if message.method == "initialize":
            if _header(scope, CONNECTION_ID) is not None:
                raise RefusalError(400, "a connection is initialized once; leave out Acp-Connection-Id for a new one")
            return await self._initialize(token, body, message)
        connection = self._connection(token, scope)
        session = _session_of(message, scope)
        try:
            connection.note(message, session)
            if session is not None:
                connection.stream(session)
            await connection.send(body)
        except RefusedError as error:
            raise RefusalError(429, str(error)) from None
        except (OSError, TimeoutError):
            connection.end("the agent has ended")
            raise RefusalError(404, UNKNOWN) from None
        return Response(status_code=202)

    async def _initialize(self, token: Token, body: bytes, message: Envelope) -> Response:
        if message.id in (None, UNSET):
            raise RefusalError(400, "initialize needs an id")
        try:
            connection = await self._connections.open_streamed(token)
        except (RefusedError, PlacementError) as error:
            raise _unavailable(error) from None
        try:
            answer = await connection.first_answer(body)
            is_result = envelope(answer).result is not UNSET
        except (OSError, TimeoutError, ParseError):
            connection.end("the agent did not answer")
            raise RefusalError(503, "the agent did not answer; try again") from None
        if not is_result:
            connection.end("initialize failed")
            return Response(answer, 400, media_type=_JSON)
        return Response(answer, 200, {CONNECTION_ID: connection.id}, _JSON)

    async def _get(self, token: Token, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = (_header(scope, "Accept") or "").lower()
        if _EVENT_STREAM not in accepted:
            raise RefusalError(406, f"accept {_EVENT_STREAM}")
        connection = self._connection(token, scope)
        last = _header(scope, "Last-Event-ID")
        if last is not None and not (last.isascii() and last.isdigit() and len(last) <= _POSITION_DIGITS):
            raise RefusalError(409, LOST)
        try:
            stream = connection.stream(_header(scope, SESSION_ID))
            messages = stream.read(None if last is None else int(last))
        except RefusedError as error:
            raise RefusalError(429, str(error)) from None
        except PositionLostError:
            raise RefusalError(409, LOST) from None
        headers = {
            "Content-Type": _EVENT_STREAM,
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",  # nginx would keep events back
            "Set-Cookie": self._cookie,
        }
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        writer = _EventWriter(send)
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            tasks.start_soon(writer.ping)
            await writer.write(f"retry: {RETRY_MS}\n\n".encode())
            try:
                async for position, message in messages:
                    await writer.write(b"id: %d\ndata: %s\n\n" % (position, message))
            finally:
                await messages.aclose()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            tasks.cancel_scope.cancel()


class _EventWriter:
    """Writes to an event stream, one event at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = anyio.Lock()

    async def write(self, event: bytes) -> None:
        async with self._lock:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def ping(self) -> None:
        while True:
            await anyio.sleep(PING_SECONDS)
            await self.write(b": ping\n\n")


async def _ending(connection: Connection, read: Any) -> None:
    """Read from a client; the connection ends if its host does not take a message."""
    try:
        await read()
    except (OSError, TimeoutError):
        connection.end("the agent has ended; connect again")


# --- requests ---------------------------------------------------------------------------------------------------------


def _all(scope: Scope, name: str) -> list[bytes]:
    wanted = name.lower().encode()
    return [value for header, value in scope["headers"] if header.lower() == wanted]


def _authority(scope: Scope) -> list[bytes]:
    """Return the name that a request of HTTP/2 has instead of `Host`."""
    return _all(scope, ":authority")


def _header(scope: Scope, name: str) -> str | None:
    """Return the value of a header; None without it. Raises RefusalError if there are several, or it is too long."""
    values = _all(scope, name)
    if not values:
        return None
    value = values[0].decode("latin-1")
    if name in (CONNECTION_ID, SESSION_ID) and (len(values) > 1 or not 0 < len(value) <= _MAX_ID):
        raise RefusalError(400, f"{name} must be one id")
    return value


class _Body:
    """The body of a request, as ASGI receives it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_over = False

    async def __call__(self) -> Message:
        message: Message = await self._receive()
        self._is_over = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def read(self) -> bytes:
        """Return the whole body. Raises RefusalError if it is too long, or breaks off."""
        pieces: list[bytes] = []
        size = 0
        while not self._is_over:
            message = await self()
            if message["type"] == "http.disconnect":
                raise RefusalError(400, "the body is not complete")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > MAX_MESSAGE:
                raise RefusalError(413, f"a message may have {MAX_MESSAGE:,} bytes")
        return b"".join(pieces)

    async def skip(self) -> None:
        """Skip the rest: many clients read a response only when all was taken, and hypercorn relies on it."""
        skipped = 0
        with anyio.move_on_after(DRAIN_SECONDS):
            while not self._is_over and skipped <= MOST_DRAINED:
                skipped += len((await self()).get("body", b""))


def _message(body: bytes) -> Envelope:
    """Return what routes the message of a body. Raises RefusalError."""
    if body.lstrip().startswith(b"["):
        raise RefusalError(501, "send one message at a time: batches are not supported")
    try:
        return envelope(body)
    except ParseError as error:
        raise RefusalError(400, str(error)) from None


def _session_of(message: Envelope, scope: Scope) -> str | None:
    """Return the session that a message is for. Raises RefusalError if its header is missing or another one."""
    given = _header(scope, SESSION_ID)
    named = message.session
    if message.method in _SESSION_METHODS or (message.method is not UNSET and named is not None):
        if given is None:
            raise RefusalError(400, f"{SESSION_ID} is missing")
        if named is not None and named != given:
            raise RefusalError(400, f"{SESSION_ID} is not the sessionId of the message")
    return given


def _unavailable(error: Exception) -> RefusalError:
    if isinstance(error, RefusedError):
        return RefusalError(429, str(error))
    _log.error("%s", error)
    return RefusalError(503, "your agent cannot be started; ask the administrator of this server")
