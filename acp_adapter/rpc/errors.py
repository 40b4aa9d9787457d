"""What can go wrong between two JSON-RPC peers: the protocol's codes, and the exceptions of this package.

Owns the numbers of JSON-RPC 2.0 and the shape of an error on the wire. Must not know what the program above does: which
of its exceptions becomes which code is a table of its own (`acp_adapter.errors`). Raised and read by all of `rpc`, by
codecs for what they cannot read, and by handlers for what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

_LONGEST_MESSAGE: Final = 500


class Code(IntEnum):
    """Error codes of JSON-RPC 2.0, and the answer to `$/cancel_request`."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    CANCELLED = -32800


class ProtocolError(Exception):
    """Raised by a handler, or by `accept`, to answer a request with exactly this error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.data = data


class WireShapeError(ValueError):
    """Raised by a codec for a value that has not the shape it must have; says where, never what was there."""

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


ToError = Callable[[Exception], WireError]
"""What the client is told of an exception; must be total, because it is the only boundary."""

INTERNAL_ERROR: Final = WireError(Code.INTERNAL_ERROR, "Internal error")


def one_sentence(text: str) -> str:
    """Puts a message on one line of at most 500 characters, as error messages of the protocol must be."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
