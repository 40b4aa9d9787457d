"""Bytes: standard output holds messages alone, in UTF-8, a line each; input is taken however it is split and ended."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, answered_or_refused, survived
from conformance.judging_lines import (
    closed_in_time,
    left_nothing,
    malformed_answered,
    messages_only,
    newline_at_end,
    utf8,
    whole_characters,
)
from conformance.requirement import Requirement
from conformance.requirements.acp1 import prose, schema
from conformance.traffic import Traffic
from conformance.verdict import PASS, Verdict, failed, skipped

_MESSAGE = "The agent MUST NOT write anything to its `stdout` that is not a valid ACP message."
_LINE = "Messages are delimited by newlines (`\\n`), and MUST NOT contain embedded newlines."
_RESPOND = "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications."
_ID = (
    "If there was an error in detecting the id in the Request object (e.g. Parse error/Invalid "
    "Request), it MUST be Null."
)

_PIPE: Final = 65_536
"""Bytes that a pipe holds on Linux, unless it is told otherwise."""


def _modest_log(traffic: Traffic) -> Verdict:
    logged = [(i, entry) for i, entry in enumerate(traffic.transcript.entries) if entry.kind == "server-log"]
    size = sum(entry.omitted or len(entry.data) for _, entry in logged)
    shown = [index for index, _ in (*logged[:2], *logged[-1:])]
    return failed(f"{size:,} bytes were written to standard error", *shown) if size > _PIPE else PASS


def _answers_meanwhile(traffic: Traffic) -> Verdict:
    if not traffic.marks("meanwhile"):
        return skipped("the agent showed nothing of its turn")
    return answered("meanwhile")(traffic)


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-FRAME-001",
        "mandatory",
        "The agent writes nothing to standard output but messages, one on each line.",
        prose("transports", _MESSAGE),
        messages_only,
        violation="a line of standard output: Loading model ...",
    ),
    Requirement(
        "ACP1-A-FRAME-002",
        "mandatory",
        "The agent's messages are UTF-8.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        utf8,
        violation='{"jsonrpc":"2.0","method":"session/update", ... "text":"caf\\xe9"}',
    ),
    Requirement(
        "ACP1-A-FRAME-003",
        "mandatory",
        "The agent ends each message with a newline, the last one too.",
        prose("transports", _LINE),
        newline_at_end,
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the agent exits',
    ),
    Requirement(
        "ACP1-A-FRAME-004",
        "informational",
        "The agent's strings hold no half of a surrogate pair.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        whole_characters,
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "ACP1-A-FRAME-005",
        "mandatory",
        "The agent takes a message that arrives in many small pieces.",
        prose("transports", _LINE),
        answered("split", expect="result"),
        scenario="split-writes",
        violation="the second half of a line, taken for a message of its own",
    ),
    Requirement(
        "ACP1-A-FRAME-006",
        "mandatory",
        "The agent takes several messages that arrive at once.",
        prose("transports", _LINE),
        answered("joined-1", "joined-2", "joined-3", expect="result"),
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "ACP1-A-FRAME-007",
        "mandatory",
        "The agent takes line separators and characters outside the basic plane within strings.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        answered("prompt", expect="result"),
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "ACP1-A-FRAME-008",
        "informational",
        "The agent goes on after an escaped half of a surrogate pair.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        survived,
        scenario="lone-surrogate",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-009",
        "advisory",
        "The agent goes on after lines that are no messages.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        survived,
        scenario="malformed-lines",
        violation="an agent that exits at the line `[]`",
    ),
    Requirement(
        "ACP1-A-FRAME-010",
        "advisory",
        "The agent answers lines that are no messages with a parse error, or with an invalid request.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        malformed_answered,
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-011",
        "informational",
        "The agent goes on after a line that is not UTF-8.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        survived,
        scenario="not-utf8",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-012",
        "informational",
        "The agent takes no notice of empty lines.",
        prose("transports", _LINE),
        survived,
        scenario="blank-lines",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-013",
        "informational",
        "The agent takes a line that ends with CR LF, since JSON allows the CR as white space.",
        prose("transports", _LINE),
        answered("crlf", expect="result"),
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-014",
        "informational",
        "The agent takes a byte order mark before the first message, or answers it with an error.",
        prose("transports", "JSON-RPC messages MUST be UTF-8 encoded."),
        answered_or_refused("bom"),
        scenario="byte-order-mark",
        violation="silence",
    ),
    Requirement(
        "ACP1-A-FRAME-015",
        "informational",
        "The agent goes on after a line of 50 MB, whether it takes it or not.",
        prose("transports", _LINE),
        survived,
        scenario="long-line",
        violation="an agent whose reader stops at 64 KiB",
    ),
    Requirement(
        "ACP1-A-FRAME-016",
        "informational",
        "The agent goes on after responses that it did not ask for.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        survived,
        scenario="unasked-response",
        violation="an agent that exits",
    ),
    Requirement(
        "ACP1-A-FRAME-017",
        "informational",
        "The agent exits within three seconds when its input ends.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        closed_in_time,
        scenario="end-of-input",
        violation="an agent that runs on after its editor was closed",
    ),
    Requirement(
        "ACP1-A-FRAME-018",
        "informational",
        "The agent exits within three seconds when its input ends in the middle of a turn.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        closed_in_time,
        scenario="end-of-input-in-a-turn",
        violation="an agent that finishes its turn for nobody",
    ),
    Requirement(
        "ACP1-A-FRAME-019",
        "advisory",
        "The agent answers a request that the end of its input follows at once.",
        prose("json-rpc", _RESPOND),
        answered("last", expect="result"),
        scenario="end-of-input-at-once",
        violation="`echo '{...initialize...}' | agent` prints nothing",
    ),
    Requirement(
        "ACP1-A-FRAME-020",
        "informational",
        "The agent leaves no process behind when it has ended.",
        prose("session-setup", "then free the resources associated with the session."),
        left_nothing,
        violation="an MCP server that outlives its agent",
    ),
    Requirement(
        "ACP1-A-FRAME-021",
        "informational",
        "The agent writes no more to standard error in a scenario than a pipe holds, 64 KiB.",
        prose("transports", "Clients **MAY** capture, forward, or ignore this logging."),
        _modest_log,
        violation="an agent that stops when the pipe is full, because its client does not read it",
    ),
    Requirement(
        "ACP1-A-FRAME-022",
        "mandatory",
        "The agent answers what it is asked while tools run: nothing that they start reads its input.",
        prose("json-rpc", _RESPOND),
        _answers_meanwhile,
        scenario="asked-meanwhile",
        violation="a request that was read by a command which the agent runs",
    ),
)
