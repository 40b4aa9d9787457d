"""The messages of JSON-RPC and its errors: classifying, building, error codes and exceptions.

Pure. Knows no method and no exception of the engine; `acp_adapter.server` maps those to codes. The peer classifies
each message before it runs anything, so nothing malformed reaches the dispatcher. Handlers, readers of the wire and the
peer raise the exceptions. Sources: JSON-RPC 2.0, sections 4 to 6; ACP v1, where an id is an integer, a string or null.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeGuard, cast

from msgspec import Struct

_LONGEST_MESSAGE: Final = 500

Json = dict[str, Any]
"""A JSON object."""

RequestId = int | str | None


# --- errors -----------------------------------------------------------------------------------------------------------


class Code(IntEnum):
    """Error codes of JSON-RPC 2.0, and the answer to `$/cancel_request`."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    CANCELLED = -32800


class ProtocolError(Exception):
    """Raised by a handler, or by `accept`, to answer the request with exactly this error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.data = data


class WireShapeError(ValueError):
    """Raised by a reader for a value of the wrong shape; names the place, never the value."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class RemoteError(Exception):
    """Raised from `Peer.request` when the client answers with an error; -32800 is its answer to our cancellation."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"the client refused {method} ({code}): {message}")
        self.method = method
        self.code = code
        self.message = message
        self.data = data


class InvalidResultError(Exception):
    """Raised from `Peer.request` when the client's answer has the wrong shape."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"the client's answer to {method} is malformed: {reason}")
        self.method = method
        self.reason = reason


class ConnectionClosedError(Exception):
    """Raised from `Peer.request` when the client is gone, so no answer can come."""

    def __init__(self, method: str) -> None:
        super().__init__(f"the client disconnected before it answered {method}")
        self.method = method


class WireError(NamedTuple):
    """An error as it is sent: `message` is one sentence without a newline, `data` is omitted when it is None."""

    code: int
    message: str
    data: Any = None


ToError = Callable[[Exception], WireError]
"""Returns the error for an exception. Must never raise, because it is the only boundary."""

INTERNAL_ERROR: Final = WireError(Code.INTERNAL_ERROR, "Internal error")


def one_sentence(text: str) -> str:
    """Put a message on one line of at most 500 characters, as the protocol requires. Cut it between two words."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE].rpartition(' ')[0]}…"


# --- messages ---------------------------------------------------------------------------------------------------------


class Call(Struct, frozen=True):
    """A request, or a notification if it has no id; `params` is unchecked, None if there were none."""

    method: str
    params: object
    id: RequestId = None
    is_notification: bool = False


class Response(Struct, frozen=True):
    """An answer to one of our requests; `id` is unchecked, and an `error` that is not None takes precedence."""

    id: object
    result: object
    error: object


class Invalid(Struct, frozen=True):
    """A value that is not a message, to be answered with -32600 under `id`; `reason` is one sentence."""

    id: RequestId
    reason: str


def classify(value: object) -> Call | Response | Invalid:
    """Classify a decoded line; never raises. Batches are invalid, because ACP removed them."""
    if isinstance(value, list):
        return Invalid(None, "Batches are not supported")
    if not isinstance(value, dict):
        return Invalid(None, "A message must be an object")
    message = cast("dict[str, object]", value)
    if "method" not in message and ("result" in message or "error" in message):
        return Response(message.get("id"), message.get("result"), message.get("error"))
    request_id = message.get("id")
    if not is_request_id(request_id):
        return Invalid(None, "id must be an integer, a string or null")
    method = message.get("method")
    if message.get("jsonrpc") != "2.0":
        return Invalid(request_id, 'jsonrpc must be "2.0"')
    if not isinstance(method, str):
        return Invalid(request_id, "method must be a string")
    return Call(method, message.get("params"), request_id, is_notification="id" not in message)


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Whether the value is an id. True and 1.0 are not, although Python considers them equal to 1."""
    return value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def request(request_id: RequestId, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def error_response(request_id: RequestId, error: WireError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": int(error.code), "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}
