"""Bytes and JSON-RPC messages of a server: framing, encoding, ids, errors, unknown methods, malformed input."""

from __future__ import annotations

from typing import Final

from conformance.driver import WITHHELD, Driver, encode_line, request_message
from conformance.judging import PASS, Requirement, Verdict, answered, failed, skipped, survived
from conformance.suite import Scenario
from conformance.suites import jsonrpc_rules as rules
from conformance.suites.jsonrpc_rules import REPLY_QUOTE, Subject
from conformance.suites.jsonrpc_scenarios import (
    MALFORMED_LINES,
    UNUSUAL_TEXT,
    Act,
    Probe,
    Run,
    byte_order_mark,
    lone_surrogate,
    long_line,
    running,
    scenarios,
    split,
)
from conformance.suites.mcp_stdio.client import definition, first_request, open_any, prose, schema, when
from conformance.traffic import Message, Traffic, id_key

_MESSAGE: Final = "The server **MUST NOT** write anything to its `stdout` that is not a valid MCP message."
_LINE: Final = prose(
    "basic/transports", "Messages are delimited by newlines, and **MUST NOT** contain embedded newlines."
)
_UTF8: Final = prose("basic/transports", "JSON-RPC messages **MUST** be UTF-8 encoded.")
_SINGLE: Final = prose("basic/transports", "Messages are individual JSON-RPC requests, notifications, or responses.")
_INVALID_JSON: Final = prose("json-rpc", "Invalid JSON was received by the server.")
_SAME_ID: Final = prose("basic", "Result responses **MUST** include the same ID as the request they correspond to.")
_NO_RESPONSE: Final = prose("basic", "The receiver **MUST NOT** send a response.")


# --- judges -----------------------------------------------------------------------------------------------------------


def _never_again(traffic: Traffic) -> Verdict:
    used: dict[tuple[int, object], Message] = {}
    for message in traffic.sent("server"):
        if message.is_request:
            before = used.setdefault((traffic.start_of(message), id_key(message.id)), message)
            if before is not message:
                return failed(f"two requests have the id {message.id!r}", before.index, message.index)
    return PASS if used else skipped("the server sent no request")


_SERVER: Final = Subject(
    "server",
    prose,
    definition,
    may_refuse=(
        *("unknown-version", "partial-meta", "no-meta", "wrong-cursor", "unknown-tool", "missing-argument"),
        *("wrong-type", "undeclared-tools", "undeclared-resources", "undeclared-prompts", "undeclared-completions"),
        *("undeclared-logging", "unknown-resource", "unknown-prompt", "missing-prompt-argument", "complete"),
        *("complete-unknown", "wrong-level"),
    ),
)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    rules.MESSAGES_ONLY.of(_SERVER, "MCP-S-FRAME-001", prose("basic/transports", _MESSAGE)),
    rules.UTF8.of(_SERVER, "MCP-S-FRAME-002", _UTF8),
    rules.NEWLINE_AT_END.of(_SERVER, "MCP-S-FRAME-003", _LINE),
    rules.NO_LONE_SURROGATES.of(_SERVER, "MCP-S-FRAME-004", _UTF8),
    rules.SPLIT_WRITES.of(_SERVER, "MCP-S-FRAME-005", _LINE),
    rules.JOINED_WRITES.of(_SERVER, "MCP-S-FRAME-006", _LINE),
    rules.UNUSUAL_CHARACTERS.of(_SERVER, "MCP-S-FRAME-007", _UTF8),
    rules.LONE_SURROGATE.of(_SERVER, "MCP-S-FRAME-008", _UTF8),
    rules.SURVIVES_MALFORMED_LINES.of(_SERVER, "MCP-S-FRAME-009", _INVALID_JSON),
    rules.ANSWERS_MALFORMED_LINES.of(_SERVER, "MCP-S-FRAME-010", _INVALID_JSON),
    rules.NOT_UTF8.of(_SERVER, "MCP-S-FRAME-011", _UTF8),
    rules.BLANK_LINES.of(_SERVER, "MCP-S-FRAME-012", _LINE),
    rules.CR_LF.of(_SERVER, "MCP-S-FRAME-013", _LINE),
    rules.BYTE_ORDER_MARK.of(_SERVER, "MCP-S-FRAME-014", _UTF8),
    rules.LONG_LINE.of(_SERVER, "MCP-S-FRAME-015", _LINE),
    rules.UNASKED_RESPONSE.of(_SERVER, "MCP-S-FRAME-016", _SINGLE),
    Requirement(
        "MCP-S-FRAME-017",
        "informational",
        "The server keeps working after a batch, which this version no longer supports.",
        _SINGLE,
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
    rules.VERSION.of(
        _SERVER, "MCP-S-RPC-001", schema("/$defs/JSONRPCResultResponse/properties/jsonrpc", '"const": "2.0"')
    ),
    rules.RESULT_OR_ERROR.of(_SERVER, "MCP-S-RPC-002"),
    rules.ERROR_SHAPE.of(
        _SERVER,
        "MCP-S-RPC-003",
        prose("basic", "Error responses **MUST** include an `error` field with a `code` and `message`."),
    ),
    rules.ANSWERS_ONCE.of(_SERVER, "MCP-S-RPC-004", _SAME_ID),
    rules.NOTIFICATIONS.of(_SERVER, "MCP-S-RPC-005", _NO_RESPONSE),
    rules.IDS.of(_SERVER, "MCP-S-RPC-006", _SAME_ID),
    rules.OWN_IDS.of(_SERVER, "MCP-S-RPC-007", prose("basic", "Requests **MUST** include a string or integer ID.")),
    rules.UNKNOWN_METHOD.of(_SERVER, "MCP-S-RPC-008"),
    rules.UNKNOWN_METHOD_CODE.of(
        _SERVER, "MCP-S-RPC-009", prose("json-rpc", "The method does not exist / is not available.")
    ),
    rules.UNKNOWN_NOTIFICATIONS.of(_SERVER, "MCP-S-RPC-010", _NO_RESPONSE),
    Requirement(
        "MCP-S-RPC-011",
        "mandatory",
        "The server answers each of several pending requests.",
        prose("json-rpc", REPLY_QUOTE),
        answered("at-once"),
        scenario="at-once",
        violation="only eight of ten requests are answered",
    ),
    rules.EVERY_REQUEST.of(_SERVER, "MCP-S-RPC-012"),
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
_LONG_METHOD: Final = "notifications/rewindow_conformance"


def _open(driver: Driver) -> Probe:
    return Probe(driver, *open_any(driver).probe())


def _open_silent(driver: Driver) -> Probe:
    probe = _open(driver)
    driver.pause(_SETTLE)
    driver.answerers["ping"] = lambda _: WITHHELD  # an answer between the pieces would become part of the line
    return probe


def _run(act: Act, alive: bool = False) -> Run:
    return running(_open_silent if act is split else _open, act, alive)


def _unusual(probe: Probe) -> None:
    request, message = probe.message("unusual", UNUSUAL_TEXT)
    probe.driver.send(message)
    probe.driver.response(request)


def _batch(probe: Probe) -> None:
    batch = [request_message(probe.driver.new_id(), probe.method, probe.params) for _ in range(2)]
    probe.driver.mark("malformed", "a batch")
    probe.driver.send_bytes(encode_line(batch))
    probe.driver.pause(0.3)


def _run_bom(driver: Driver) -> None:
    byte_order_mark(Probe(driver, *first_request(driver)))


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
    *scenarios(_run, MALFORMED_LINES),
    Scenario("unusual-characters", "Sends line separators and characters outside the basic plane.", _run(_unusual)),
    Scenario("lone-surrogate", "Sends an escaped lone surrogate.", _run(lone_surrogate("\ud83d", 2.0), True)),
    Scenario("batch", "Sends an array of two requests, a batch of earlier versions.", _run(_batch, True)),
    Scenario("byte-order-mark", "Sends a byte order mark before the first message.", _run_bom),
    Scenario("long-line", "Sends a notification of 50 MB.", _run(long_line(_LONG_METHOD), True), alone=True),
    Scenario("unknown-methods", "Sends unknown requests.", _run_unknown),
    Scenario("unknown-notifications", "Sends unknown notifications.", _run_notes),
)
