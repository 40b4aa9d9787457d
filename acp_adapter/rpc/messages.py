"""The kinds of JSON-RPC messages: telling them apart and making them.

Pure. Must not know any method. A message is judged before anything is run, so that nothing malformed reaches the
dispatcher. Sources: JSON-RPC 2.0 sections 4 to 6; ACP v1, where an id is an integer, a string or null.
"""

from __future__ import annotations

from typing import Any, TypeGuard, cast

from msgspec import Struct

from acp_adapter.rpc.errors import WireError

RequestId = int | str | None


class Call(Struct, frozen=True):
    """A request, or a notification if it has no id at all; `params` is whatever was sent, None if nothing was."""

    method: str
    params: object
    id: RequestId = None
    is_notification: bool = False


class Response(Struct, frozen=True):
    """An answer to a request of ours; `id` is anything, `error` counts if it is not None."""

    id: object
    result: object
    error: object


class Invalid(Struct, frozen=True):
    """Something that is not a message: to be answered with -32600 under `id`; `reason` is one sentence."""

    id: RequestId
    reason: str


def classify(value: object) -> Call | Response | Invalid:
    """Says what a decoded line is; never raises. Batches are no messages: ACP removed them."""
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
    """True and 1.0 are no ids, although Python takes them for 1."""
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
