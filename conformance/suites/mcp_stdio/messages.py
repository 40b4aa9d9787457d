"""Bytes and JSON-RPC messages of a server: framing, encoding, ids, errors, unknown methods, malformed input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conformance.driver import METHOD_NOT_FOUND, WITHHELD, Driver, encode_line, request_message
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    answered,
    answered_or_refused,
    every,
    failed,
    skipped,
    survived,
)
from conformance.suite import Scenario
from conformance.suites.jsonrpc import (
    MALFORMED_LINES,
    NOT_UTF8_LINE,
    REPLY_QUOTE,
    RESULT_OR_ERROR_QUOTE,
    UNASKED_RESPONSES,
    UNUSUAL_TEXT,
    WIDE_TEXT,
    all_answered,
    error_code_is,
    form_problem,
    ids_preserved,
    malformed_answered,
    message_objects,
    messages_only,
    newline_at_end,
    no_lone_surrogates,
    no_message,
    notifications_unanswered,
    own_ids_are_valid,
    responses,
    responses_match,
    utf8,
    version_problem,
)
from conformance.suites.mcp_stdio.client import Client, definition, first_request, open_any, prose, schema, when
from conformance.traffic import Message, Traffic, id_key
from conformance.values import Object

_MESSAGE: Final = "The server **MUST NOT** write anything to its `stdout` that is not a valid MCP message."
_LINE: Final = "Messages are delimited by newlines, and **MUST NOT** contain embedded newlines."
_UTF8: Final = "JSON-RPC messages **MUST** be UTF-8 encoded."
_SINGLE: Final = "Messages are individual JSON-RPC requests, notifications, or responses."


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


def _error_problem(message: Message) -> str:
    if "error" not in message.object or "result" in message.object:
        return ""
    wrong = definition("Error")(message.object["error"])
    return f"the error: {wrong}" if wrong else ""


def _never_again(traffic: Traffic) -> Verdict:
    used: dict[tuple[int, object], Message] = {}
    for message in traffic.sent("server"):
        if message.is_request:
            before = used.setdefault((traffic.start_of(message), id_key(message.id)), message)
            if before is not message:
                return failed(f"two requests have the id {message.id!r}", before.index, message.index)
    return PASS if used else skipped("the server sent no request")


_REFUSED: Final = (
    *("unknown-version", "partial-meta", "no-meta", "wrong-cursor", "unknown-tool", "missing-argument", "wrong-type"),
    *("undeclared-tools", "undeclared-resources", "undeclared-prompts", "undeclared-completions", "undeclared-logging"),
    *("unknown-resource", "unknown-prompt", "missing-prompt-argument", "complete", "complete-unknown", "wrong-level"),
)
"""Marks of requests that a server may refuse, because their requirement is advice or asks for no more."""


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "MCP-S-FRAME-001",
        "mandatory",
        "The server writes only messages to standard output, one per line.",
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
        "The server ends each message with a newline, including the last one.",
        prose("basic/transports", _LINE),
        newline_at_end,
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the server exits',
    ),
    Requirement(
        "MCP-S-FRAME-004",
        "informational",
        "The server's strings contain no lone surrogates.",
        prose("basic/transports", _UTF8),
        no_lone_surrogates,
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "MCP-S-FRAME-005",
        "mandatory",
        "The server accepts a message in many small pieces.",
        prose("basic/transports", _LINE),
        answered("split", expect="result"),
        scenario="split-writes",
        violation="the second half of a line, treated as a separate message",
    ),
    Requirement(
        "MCP-S-FRAME-006",
        "mandatory",
        "The server accepts several messages in one write.",
        prose("basic/transports", _LINE),
        answered("joined", expect="result"),
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "MCP-S-FRAME-007",
        "mandatory",
        "The server accepts line separators and characters outside the basic plane in strings.",
        prose("basic/transports", _UTF8),
        answered("unusual", expect="result"),
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "MCP-S-FRAME-008",
        "informational",
        "The server keeps working after an escaped lone surrogate.",
        prose("basic/transports", _UTF8),
        survived,
        scenario="lone-surrogate",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-009",
        "advisory",
        "The server keeps working after lines that are not messages.",
        prose("json-rpc", "Invalid JSON was received by the server."),
        survived,
        scenario="malformed-lines",
        violation="a server that exits at the line `5`",
    ),
    Requirement(
        "MCP-S-FRAME-010",
        "advisory",
        "The server answers lines that are not messages with a parse error or an invalid request error.",
        prose("json-rpc", "Invalid JSON was received by the server."),
        malformed_answered,
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-011",
        "informational",
        "The server keeps working after a line that is not UTF-8.",
        prose("basic/transports", _UTF8),
        survived,
        scenario="not-utf8",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-012",
        "informational",
        "The server ignores empty lines.",
        prose("basic/transports", _LINE),
        survived,
        scenario="blank-lines",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-013",
        "informational",
        "The server accepts a line that ends with CR LF, because JSON allows CR as white space.",
        prose("basic/transports", _LINE),
        answered("crlf", expect="result"),
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-014",
        "informational",
        "The server accepts a byte order mark before the first message, or answers it with an error.",
        prose("basic/transports", _UTF8),
        answered_or_refused("bom"),
        scenario="byte-order-mark",
        violation="silence",
    ),
    Requirement(
        "MCP-S-FRAME-015",
        "informational",
        "The server keeps working after a line of 50 MB, accepted or not.",
        prose("basic/transports", _LINE),
        survived,
        scenario="long-line",
        violation="a server whose reader stops at 64 KiB",
    ),
    Requirement(
        "MCP-S-FRAME-016",
        "informational",
        "The server keeps working after responses to no request.",
        prose("basic/transports", _SINGLE),
        survived,
        scenario="unasked-response",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-017",
        "informational",
        "The server keeps working after a batch, which this version no longer supports.",
        prose("basic/transports", _SINGLE),
        survived,
        scenario="batch",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-FRAME-018",
        "mandatory",
        "The server answers requests that arrive together with a call, whatever the tool does.",
        prose("json-rpc", REPLY_QUOTE),
        when("behind", answered("behind", expect="result")),
        violation="a tool whose child process inherits standard input, and reads the next request",
    ),
    Requirement(
        "MCP-S-RPC-001",
        "mandatory",
        "Every message of the server declares JSON-RPC 2.0.",
        schema("/$defs/JSONRPCResultResponse/properties/jsonrpc", '"const": "2.0"'),
        every(message_objects, version_problem, no_message),
        violation='{"id":1,"result":{}}',
    ),
    Requirement(
        "MCP-S-RPC-002",
        "mandatory",
        "A response of the server has either a result or an error.",
        prose("json-rpc", RESULT_OR_ERROR_QUOTE),
        every(message_objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "MCP-S-RPC-003",
        "mandatory",
        "An error of the server has an integer code and a message.",
        prose("basic", "Error responses **MUST** include an `error` field with a `code` and `message`."),
        every(responses, _error_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such tool"}',
    ),
    Requirement(
        "MCP-S-RPC-004",
        "mandatory",
        "The server answers only requests, and each of them once.",
        prose("basic", "Result responses **MUST** include the same ID as the request they correspond to."),
        responses_match,
        violation="two responses with the id 3",
    ),
    Requirement(
        "MCP-S-RPC-005",
        "mandatory",
        "The server answers no notification.",
        prose("basic", "The receiver **MUST NOT** send a response."),
        notifications_unanswered,
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "MCP-S-RPC-006",
        "mandatory",
        "The server's responses repeat ids exactly, whatever their type.",
        prose("basic", "Result responses **MUST** include the same ID as the request they correspond to."),
        ids_preserved,
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "MCP-S-RPC-007",
        "mandatory",
        "The server's own requests have string or integer ids, and pending requests have different ones.",
        prose("basic", "Requests **MUST** include a string or integer ID."),
        own_ids_are_valid(definition("RequestId")),
        violation='{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    ),
    Requirement(
        "MCP-S-RPC-008",
        "mandatory",
        "The server answers an unknown method.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "MCP-S-RPC-009",
        "advisory",
        "The answer to an unknown method is the error -32601.",
        prose("json-rpc", "The method does not exist / is not available."),
        error_code_is("unknown", METHOD_NOT_FOUND, instead_of_result=True),
        scenario="unknown-methods",
        violation='"code":-32602',
    ),
    Requirement(
        "MCP-S-RPC-010",
        "advisory",
        "The server ignores unknown notifications.",
        prose("basic", "The receiver **MUST NOT** send a response."),
        survived,
        scenario="unknown-notifications",
        violation="a server that exits",
    ),
    Requirement(
        "MCP-S-RPC-011",
        "mandatory",
        "The server answers each of several pending requests.",
        prose("json-rpc", REPLY_QUOTE),
        answered("at-once"),
        scenario="at-once",
        violation="of ten requests with ids of both types, eight answered",
    ),
    Requirement(
        "MCP-S-RPC-012",
        "mandatory",
        "The server answers every request.",
        prose("json-rpc", REPLY_QUOTE),
        all_answered(*_REFUSED),
        violation="silence",
    ),
    Requirement(
        "MCP-S-RPC-013",
        "mandatory",
        "The server uses each request id only once.",
        prose(
            "basic", "The request ID **MUST NOT** have been previously used by the requestor within the same session."
        ),
        _never_again,
        violation="a second ping with the id 0, after the first was answered",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_SETTLE: Final = 0.2


def _probe(client: Client, request_id: Any, text: str = "") -> Object:
    """Return a request that every server answers, with a text in it."""
    method, params = client.probe()
    more = {**params, "_meta": {**params.get("_meta", {}), "example.org/text": text}} if text else params
    return request_message(request_id, method, more)


def _marked(client: Client, label: str) -> Any:
    request = client.driver.new_id()
    client.driver.mark(label, request)
    return request


def _run_split(driver: Driver) -> None:
    client = open_any(driver)
    driver.pause(_SETTLE)
    driver.answerers["ping"] = lambda _: WITHHELD  # an answer between the pieces would become part of the line
    request = _marked(client, "split")
    data = encode_line(_probe(client, request, WIDE_TEXT))
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.send_bytes(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _run_joined(driver: Driver) -> None:
    client = open_any(driver)
    requests = [_marked(client, "joined") for _ in range(3)]
    driver.send_bytes(b"".join(encode_line(_probe(client, one)) for one in requests))
    for request in requests:
        driver.response(request)


def _run_unusual(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "unusual")
    driver.send_bytes(encode_line(_probe(client, request, UNUSUAL_TEXT)))
    driver.response(request)


def _run_escaped(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "escaped")
    driver.send_bytes(json.dumps(_probe(client, request, "\ud83d")).encode() + b"\n")
    driver.response(request, 2.0)
    client.alive()


def _run_lines(*lines: bytes) -> Callable[[Driver], None]:
    """Send lines that are not requests. Each may be answered with an error without an id."""

    def run(driver: Driver) -> None:
        client = open_any(driver)
        for one in lines:
            driver.mark("malformed", one.decode(errors="replace")[:80])
            driver.send_bytes(one)
            driver.pause(0.1)
        client.alive()

    return run


def _run_batch(driver: Driver) -> None:
    client = open_any(driver)
    requests = [driver.new_id() for _ in range(2)]
    driver.mark("malformed", "a batch")
    driver.send_bytes(encode_line([_probe(client, one) for one in requests]))
    driver.pause(0.3)
    client.alive()


def _run_crlf(driver: Driver) -> None:
    client = open_any(driver)
    request = _marked(client, "crlf")
    driver.send_bytes(encode_line(_probe(client, request)).replace(b"\n", b"\r\n"))
    driver.response(request)


def _run_bom(driver: Driver) -> None:
    request = driver.new_id()
    driver.mark("bom", request)
    driver.send_bytes(b"\xef\xbb\xbf" + encode_line(request_message(request, *first_request(driver))))
    driver.response(request)


def _run_long(driver: Driver) -> None:
    client = open_any(driver)
    driver.mark("long-line", driver.options.long_line)
    head = encode_line({"jsonrpc": "2.0", "method": "notifications/rewindow_conformance", "params": {"text": ""}})
    driver.send_bytes(head.replace(b'""', b'"' + b"x" * driver.options.long_line + b'"'), generated=True)
    client.alive()


def _run_ids(driver: Driver) -> None:
    client = open_any(driver)
    method, params = client.probe()
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        driver.request(method, params, label="id", request_id=value)
        driver.response(value)


def _run_unknown(driver: Driver) -> None:
    client = open_any(driver)
    for method in ("rewindow_conformance/unknown", "tools/rewindow_conformance"):
        client.asked(method, label="unknown")
    client.alive()


def _run_notes(driver: Driver) -> None:
    client = open_any(driver)
    for method in ("notifications/rewindow_conformance", "rewindow_conformance/unknown", "$/note"):
        driver.notify(method, client.params(text="nothing"))
    driver.pause(0.3)
    client.alive()


SCENARIOS: Final = (
    Scenario("split-writes", "Sends a message in many small writes, some of which split a character.", _run_split),
    Scenario("joined-writes", "Sends three messages in one write.", _run_joined),
    Scenario("unusual-characters", "Sends line separators and characters outside the basic plane.", _run_unusual),
    Scenario("lone-surrogate", "Sends an escaped lone surrogate.", _run_escaped),
    Scenario("malformed-lines", "Sends lines that are not JSON or not messages.", _run_lines(*MALFORMED_LINES)),
    Scenario("blank-lines", "Sends empty lines.", _run_lines(b"\n", b"   \n", b"\r\n")),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", _run_lines(NOT_UTF8_LINE)),
    Scenario("batch", "Sends an array of two requests, a batch of earlier versions.", _run_batch),
    Scenario("unasked-response", "Sends responses to no request.", _run_lines(*UNASKED_RESPONSES)),
    Scenario("crlf", "Ends a line with CR LF.", _run_crlf),
    Scenario("byte-order-mark", "Sends a byte order mark before the first message.", _run_bom),
    Scenario("long-line", "Sends a notification of 50 MB.", _run_long, alone=True),
    Scenario("ids", "Sends requests with ids of various types and sizes.", _run_ids),
    Scenario("unknown-methods", "Sends unknown requests.", _run_unknown),
    Scenario("unknown-notifications", "Sends unknown notifications.", _run_notes),
)
