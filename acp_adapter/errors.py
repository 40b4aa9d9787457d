"""Which exception is which error on the wire: the one table, and the code that the Agent Client Protocol adds.

Owns what an exception of the engine may say to the client. Must never let the text of an unknown exception out. Called
by the peer for whatever a handler raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from acp_adapter.rpc.errors import (
    INTERNAL_ERROR,
    Code,
    ConnectionClosedError,
    InvalidResultError,
    ProtocolError,
    RemoteError,
    WireError,
    one_sentence,
)
from engine.core.errors import (
    EngineError,
    InvalidRequestError,
    SessionBusyError,
    SessionInUseError,
    SessionNotFoundError,
)

RESOURCE_NOT_FOUND: Final = -32002
AUTH_REQUIRED: Final = -32000
"""The Agent Client Protocol's own codes, beside those of JSON-RPC."""


class ErrorCode(Struct, frozen=True):
    """Exceptions of `type` are sent as `code`, with their own text and the data that `data` makes of them."""

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
"""The first row whose type matches decides; an exception without a row is an internal error that says nothing."""


def to_error(exc: Exception, rows: tuple[ErrorCode, ...] = ERROR_CODES) -> WireError:
    """Turns an exception into what the client is told; total, so that it can be the only boundary."""
    if isinstance(exc, ProtocolError):
        return WireError(exc.code, one_sentence(exc.message), exc.data)
    for row in rows:
        if isinstance(exc, row.type):
            return WireError(row.code, one_sentence(str(exc)), row.data(exc) if row.data else None)
    return INTERNAL_ERROR
