"""Bytes: the agent's input holds messages alone, in UTF-8, a line each; what it writes is taken however it is split."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.judging_lines import left_nothing, messages_only, newline_at_end, utf8, whole_characters
from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, schema
from conformance.requirements.acp1_client.reading import SIDE, answers_asked, goes_on

_MESSAGE = "The client **MUST NOT** write anything to the agent's `stdin` that is not a valid ACP message."
_LINE = "Messages are delimited by newlines (`\\n`), and **MUST NOT** contain embedded newlines."
_UTF8 = "JSON-RPC messages **MUST** be UTF-8 encoded."
_RESPOND = "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-FRAME-001",
        "mandatory",
        "The client writes nothing to the agent's standard input but messages, one on each line.",
        prose("transports", _MESSAGE),
        partial(messages_only, side=SIDE),
        violation="a line of the agent's standard input: Connecting ...",
    ),
    Requirement(
        "ACP1-C-FRAME-002",
        "mandatory",
        "The client's messages are UTF-8.",
        prose("transports", _UTF8),
        partial(utf8, side=SIDE),
        violation='{"jsonrpc":"2.0","method":"session/prompt", ... "text":"caf\\xe9"}',
    ),
    Requirement(
        "ACP1-C-FRAME-003",
        "mandatory",
        "The client ends each message with a newline, the last one too.",
        prose("transports", _LINE),
        partial(newline_at_end, side=SIDE),
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the client ends',
    ),
    Requirement(
        "ACP1-C-FRAME-004",
        "informational",
        "The client's strings hold no half of a surrogate pair.",
        prose("transports", _UTF8),
        partial(whole_characters, side=SIDE),
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "ACP1-C-FRAME-005",
        "mandatory",
        "The client takes a message that arrives in many small pieces.",
        prose("transports", _LINE),
        answers_asked,
        scenario="split-writes",
        violation="the second half of a line, taken for a message of its own",
    ),
    Requirement(
        "ACP1-C-FRAME-006",
        "mandatory",
        "The client takes several messages that arrive at once.",
        prose("transports", _LINE),
        answers_asked,
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "ACP1-C-FRAME-007",
        "mandatory",
        "The client takes line separators and characters outside the basic plane within strings.",
        prose("transports", _UTF8),
        answers_asked,
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "ACP1-C-FRAME-008",
        "informational",
        "The client takes a line that ends with CR LF, since JSON allows the CR as white space.",
        prose("transports", _LINE),
        answers_asked,
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-FRAME-009",
        "advisory",
        "The client goes on after lines that are no messages.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        goes_on,
        scenario="malformed-lines",
        violation="a client that ends at the line `[]`",
    ),
    Requirement(
        "ACP1-C-FRAME-010",
        "informational",
        "The client takes no notice of empty lines.",
        prose("transports", _LINE),
        goes_on,
        scenario="blank-lines",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-011",
        "informational",
        "The client goes on after a line that is not UTF-8.",
        prose("transports", _UTF8),
        goes_on,
        scenario="not-utf8",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-012",
        "informational",
        "The client goes on after responses that it did not ask for.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        goes_on,
        scenario="unasked-response",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-013",
        "informational",
        "The client takes a message of 1 MB, as the content of a large file makes it.",
        prose("transports", _LINE),
        goes_on,
        scenario="long-line",
        violation="a client whose reader stops at 64 KiB",
    ),
    Requirement(
        "ACP1-C-FRAME-014",
        "informational",
        "The client goes on after a line of 50 MB, whether it takes it or not.",
        prose("transports", _LINE),
        goes_on,
        scenario="very-long-line",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-015",
        "advisory",
        "The client leaves no process behind when it has ended, its agent included.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        left_nothing,
        violation="a terminal's command that outlives its client",
    ),
)
