"""The one encoder of what leaves for the client: a line of JSON in which no text holds a secret that is known.

Owns which keys of a message are no display text: what a client or we look something up by, and paths, which are opened.
What is shown is redacted whoever wrote it, also where an event was redacted before. Must not know any method. Given to
the peer by `serving`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from acp_adapter.rpc.jsonline import encode
from engine import Redactor, redact_json

EXACT: Final = frozenset((
    # JSON-RPC
    "jsonrpc", "id", "method", "code", "requestId",
    # what somebody looks up
    "sessionId", "toolCallId", "messageId", "optionId", "methodId", "modeId", "currentModeId", "configId",
    "terminalId", "cursor", "nextCursor", "protocolVersion", "updatedAt",
    # words of the protocol
    "type", "kind", "status", "sessionUpdate", "stopReason", "category", "mimeType",
    # tables of ours, in which names and values are looked up
    "configOptions", "availableCommands",
    # what is opened
    "cwd", "additionalDirectories", "path",
))  # fmt: skip
"""Keys whose values are sent as they are, wherever they stand."""


def display_encoder(redactor: Redactor) -> Callable[[Any], bytes]:
    """`jsonline.encode` for messages without secrets; the same function where none is known."""
    if not redactor:
        return encode

    def encode_redacted(message: Any) -> bytes:
        line = encode(message)
        return encode(redact_json(redactor, message, EXACT)) if redactor.may_change(line) else line

    return encode_redacted
