"""Bytes: standard output holds messages alone, in UTF-8, a line each; input is taken however it is split and ended."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, answered_or_refused, survived
from conformance.judging_lines import malformed_answered, messages_only, newline_at_end, utf8, whole_characters
from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio.reading import prose, when

_MESSAGE: Final = "The server **MUST NOT** write anything to its `stdout` that is not a valid MCP message."
_LINE: Final = "Messages are delimited by newlines, and **MUST NOT** contain embedded newlines."
_UTF8: Final = "JSON-RPC messages **MUST** be UTF-8 encoded."
_SINGLE: Final = "Messages are individual JSON-RPC requests, notifications, or responses."
_REPLY: Final = (
    "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
)

REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-FRAME-001",
        "mandatory",
        "The server writes nothing to standard output but messages, one on each line.",
        prose("basic/transports", _MESSAGE),
        messages_only,
        violation="a line of standard output: Server running on stdio",
    ),
    Requirement(
        "MCP-S-FRAME-002",
        "mandatory",
        "The server's messages are UTF-8.",
        prose("basic/transports", _UTF8),
        utf8,
        violation='{"jsonrpc":"2.0", ... "text":"caf\\xe9"}',
    ),
    Requirement(
        "MCP-S-FRAME-003",
        "mandatory",
        "The server ends each message with a newline, the last one too.",
        prose("basic/transports", _LINE),
        newline_at_end,
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the server exits',
    ),
    Requirement(
        "MCP-S-FRAME-004",
        "informational",
        "The server's strings hold no half of a surrogate pair.",
        prose("basic/transports", _UTF8),
        whole_characters,
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "MCP-S-FRAME-005",
        "mandatory",
        "The server takes a message that arrives in many small pieces.",
        prose("basic/transports", _LINE),
        answered("split", expect="result"),
        scenario="split-writes",
        violation="the second half of a line, taken for a message of its own",
    ),
    Requirement(
        "MCP-S-FRAME-006",
        "mandatory",
        "The server takes several messages that arrive at once.",
        prose("basic/transports", _LINE),
        answered("joined", expect="result"),
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "MCP-S-FRAME-007",
        "mandatory",
        "The server takes line separators and characters outside the basic plane within strings.",
        prose("basic/transports", _UTF8),
        answered("unusual", expect="result"),
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "MCP-S-FRAME-008",
        "informational",
        "The server goes on after an escaped half of a surrogate pair.",
        prose("basic/transports", _UTF8),
        survived,
        scenario="lone-surrogate",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-009",
        "advisory",
        "The server goes on after lines that are no messages.",
        prose("json-rpc", "Invalid JSON was received by the server."),
        survived,
        scenario="malformed-lines",
        violation="a server that exits at the line `5`",
    ),
    Requirement(
        "MCP-S-FRAME-010",
        "advisory",
        "The server answers lines that are no messages with a parse error, or with an invalid request.",
        prose("json-rpc", "Invalid JSON was received by the server."),
        malformed_answered,
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-011",
        "informational",
        "The server goes on after a line that is not UTF-8.",
        prose("basic/transports", _UTF8),
        survived,
        scenario="not-utf8",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-012",
        "informational",
        "The server takes no notice of empty lines.",
        prose("basic/transports", _LINE),
        survived,
        scenario="blank-lines",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-013",
        "informational",
        "The server takes a line that ends with CR LF, since JSON allows the CR as white space.",
        prose("basic/transports", _LINE),
        answered("crlf", expect="result"),
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-014",
        "informational",
        "The server takes a byte order mark before the first message, or answers it with an error.",
        prose("basic/transports", _UTF8),
        answered_or_refused("bom"),
        scenario="byte-order-mark",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-015",
        "informational",
        "The server goes on after a line of 50 MB, whether it takes it or not.",
        prose("basic/transports", _LINE),
        survived,
        scenario="long-line",
        violation="a server whose reader stops at 64 KiB",
    ),
    Requirement(
        "MCP-S-FRAME-016",
        "informational",
        "The server goes on after responses that it did not ask for.",
        prose("basic/transports", _SINGLE),
        survived,
        scenario="unasked-response",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-017",
        "informational",
        "The server goes on after a batch, which this version no longer has.",
        prose("basic/transports", _SINGLE),
        survived,
        scenario="batch",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-018",
        "mandatory",
        "The server answers what arrives together with a call, however the tool works.",
        prose("json-rpc", _REPLY),
        when("behind", answered("behind", expect="result")),
        violation="a tool whose child process inherits standard input, and reads the next request",
    ),
)
