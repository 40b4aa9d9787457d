"""Serves one client from its first byte to its last: joins transport, peer, methods, connection and host.

Owns the two boundaries of everything that leaves: which exception becomes which error (`to_error`, the only such
table), and the encoder that removes secrets from every message. Knows no method. Called by the command line, and by
tests with their own transport and host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from acp_adapter.connection import Connection
from acp_adapter.jsonrpc.lines import encode
from acp_adapter.jsonrpc.messages import (
    INTERNAL_ERROR,
    Code,
    ConnectionClosedError,
    InvalidResultError,
    ProtocolError,
    RemoteError,
    WireError,
    one_sentence,
)
from acp_adapter.jsonrpc.peer import Peer, Transport
from acp_adapter.jsonrpc.stdio import StdioTransport
from acp_adapter.methods import METHODS
from acp_adapter.requests import RESOURCE_NOT_FOUND
from engine import Host
from engine.core.errors import (
    EngineError,
    InvalidRequestError,
    SessionBusyError,
    SessionInUseError,
    SessionNotFoundError,
)
from engine.log.redaction import Redactor, redact_json

if TYPE_CHECKING:  # for servers of many connections
    from acp_adapter.sharing import Sharing

DRAIN_SECONDS: Final = 5.0
"""Time to answer open requests after the client closed its end: a statement that ignores SIGINT needs its grace."""


def _nothing() -> None:
    pass


async def serve(transport: Transport, host: Host, when_ready: Callable[[], None] = _nothing) -> None:
    """Serve the client until it is gone, then close its sessions.

    Args:
        transport: to the client; not closed here.
        host: the engine; entered and closed here, with everything it opened.
        when_ready: called once, when the first session was shown and all modules are loaded.
    """
    async with host:
        await serve_client(transport, host, when_ready)


async def serve_client(
    transport: Transport,
    host: Host,
    when_ready: Callable[[], None] = _nothing,
    sharing: Sharing | None = None,
) -> None:
    """Serve one client of a host that was entered, until it is gone. With `sharing`, its turns go on then."""
    async with anyio.create_task_group() as tasks:
        connection = Connection(host, tasks, when_ready, sharing)
        await connection.prepare("answering")
        peer = Peer(
            transport,
            METHODS,
            connection,
            codec=connection.versions,
            to_error=to_error,
            admit=connection.admit,
            on_eof=connection.client_left,
            encode=display_encoder(host.redactor),
            grace=DRAIN_SECONDS if sharing is None else 0.0,
        )
        await peer.run()
        tasks.cancel_scope.cancel()


async def serve_descriptors(read_fd: int, write_fd: int, host: Host, when_ready: Callable[[], None]) -> None:
    """Serve one client on two descriptors, and close them at the end."""
    transport = StdioTransport(read_fd, write_fd)
    try:
        await serve(transport, host, when_ready)
    finally:
        transport.close()


# --- exceptions as errors ---------------------------------------------------------------------------------------------


class ErrorCode(Struct, frozen=True):
    """Exceptions of `type` are sent as `code`, with their own text; `data` makes the data of the error."""

    type: type[Exception]
    code: int
    data: Callable[[Any], Any] | None = None


def _session(error: SessionNotFoundError) -> dict[str, str]:
    return {"sessionId": error.session_id}


ERROR_CODES: tuple[ErrorCode, ...] = (
    ErrorCode(SessionNotFoundError, RESOURCE_NOT_FOUND, _session),
    ErrorCode(InvalidRequestError, Code.INVALID_PARAMS),
    ErrorCode(SessionInUseError, Code.INVALID_REQUEST),
    ErrorCode(SessionBusyError, Code.INVALID_REQUEST),
    ErrorCode(EngineError, Code.INTERNAL_ERROR),
    ErrorCode(RemoteError, Code.INTERNAL_ERROR),
    ErrorCode(InvalidResultError, Code.INTERNAL_ERROR),
    ErrorCode(ConnectionClosedError, Code.INTERNAL_ERROR),
)
"""The first matching row decides. Other exceptions are internal errors, and their text is never sent."""


def to_error(exc: Exception, rows: tuple[ErrorCode, ...] = ERROR_CODES) -> WireError:
    """Return the error that the client gets for an exception. Never raises, because this is the only boundary."""
    if isinstance(exc, ProtocolError):
        return WireError(exc.code, one_sentence(exc.message), exc.data)
    for row in rows:
        if isinstance(exc, row.type):
            return WireError(row.code, one_sentence(str(exc)), row.data(exc) if row.data else None)
    return INTERNAL_ERROR


# --- secrets ----------------------------------------------------------------------------------------------------------

EXACT: Final = frozenset((
    # JSON-RPC
    "jsonrpc", "id", "method", "code", "requestId",
    # identifiers that either side looks up
    "sessionId", "toolCallId", "messageId", "optionId", "methodId", "modeId", "currentModeId", "configId",
    "terminalId", "compactionId", "planId", "groupId", "cursor", "nextCursor", "protocolVersion", "updatedAt",
    # words of the protocol
    "type", "kind", "status", "sessionUpdate", "stopReason", "state", "operation", "format", "category", "mimeType",
    # our own tables of names and values
    "configOptions", "availableCommands",
    # paths that are opened
    "cwd", "additionalDirectories", "path",
))  # fmt: skip
"""Keys whose values are sent unchanged at any depth. All other text is display text, and secrets are removed."""


def display_encoder(redactor: Redactor) -> Callable[[Any], bytes]:
    """Return an encoder that removes secrets from messages, even from events that were redacted before."""

    def encode_redacted(message: Any) -> bytes:
        line = encode(message)
        return encode(redact_json(redactor, message, EXACT)) if redactor.holds_in_json(line) else line

    return encode_redacted
