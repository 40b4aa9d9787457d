"""What can go wrong on the protocol, as codes and exceptions, and the one table from exception to wire.

Owns the numbers of the Agent Client Protocol and what an exception may say to the peer. Must never let the text of an
unknown exception out. Called by the peer for whatever a handler raises, and by handlers for what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from msgspec import Struct

from engine.errors import EngineError, InvalidRequestError, SessionBusyError, SessionInUseError, SessionNotFoundError


class Code(IntEnum):
    """Error codes of JSON-RPC 2.0 and, from CANCELLED on, of ACP v1."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    CANCELLED = -32800
    AUTH_REQUIRED = -32000
    RESOURCE_NOT_FOUND = -32002


class ProtocolError(Exception):
    """Raised by a handler, or by `accept`, to answer a request with exactly this error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.data = data


class RemoteError(Exception):
    """Raised from `Peer.request` when the client answers with an error; -32800 is its answer to our cancellation."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"the client refused {method} ({code}): {message}")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


class InvalidResultError(Exception):
    """Raised from `Peer.request` when the client's answer has not the shape that the protocol gives it."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"the client's answer to {method} is malformed: {reason}")
        self.method = method
        self.reason = reason


class ConnectionClosedError(Exception):
    """Raised from `Peer.request` when no answer can come any more, because the client is gone."""

    def __init__(self, method: str) -> None:
        super().__init__(f"the client went away before it answered {method}")
        self.method = method


class WireError(NamedTuple):
    """An error as it is sent: `message` is one sentence without a newline, `data` is left out when it is None."""

    code: int
    message: str
    data: Any = None


class ErrorRow(Struct, frozen=True):
    """One line of the table: exceptions of `type` are sent as `code`, with their own text and the `data` given here."""

    type: type[Exception]
    code: Code
    data: Callable[[Any], Any] | None = None


def _session(error: SessionNotFoundError) -> dict[str, str]:
    return {"sessionId": error.session_id}


ROWS: tuple[ErrorRow, ...] = (
    ErrorRow(SessionNotFoundError, Code.RESOURCE_NOT_FOUND, _session),
    ErrorRow(InvalidRequestError, Code.INVALID_PARAMS),
    ErrorRow(SessionInUseError, Code.INVALID_REQUEST),
    ErrorRow(SessionBusyError, Code.INVALID_REQUEST),
    ErrorRow(EngineError, Code.INTERNAL_ERROR),
    ErrorRow(RemoteError, Code.INTERNAL_ERROR),
    ErrorRow(InvalidResultError, Code.INTERNAL_ERROR),
    ErrorRow(ConnectionClosedError, Code.INTERNAL_ERROR),
)
"""The first row whose type matches decides; an exception without a row is an internal error that says nothing."""

INTERNAL_ERROR = WireError(Code.INTERNAL_ERROR, "Internal error")
_LONGEST_MESSAGE = 500


def to_error(exc: Exception, rows: tuple[ErrorRow, ...] = ROWS) -> WireError:
    """Turns an exception into what the client is told; total, so that it can be the only boundary."""
    if isinstance(exc, ProtocolError):
        return WireError(exc.code, one_sentence(exc.message), exc.data)
    for row in rows:
        if isinstance(exc, row.type):
            return WireError(row.code, one_sentence(str(exc)), row.data(exc) if row.data else None)
    return INTERNAL_ERROR


def one_sentence(text: str) -> str:
    """Puts a message on one line of at most 500 characters, as error messages of the protocol must be."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
