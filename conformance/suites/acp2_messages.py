"""What JSON-RPC and the schema demand of single messages in version 2: lines, ids, errors, unknown sessions.

Version 2 has no batches. The sentences of JSON-RPC itself are vendored with version 1.
"""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, encode_line, request_message
from conformance.judging import PASS, Requirement, Verdict, evidence, failed, marked_requests, not_tested
from conformance.suite import Scenario
from conformance.suites import jsonrpc_rules as rules
from conformance.suites.acp1 import prose
from conformance.suites.acp2 import begin, definition, open_session, schema
from conformance.suites.jsonrpc import each_malformed_answered, error_code_is, messages_only
from conformance.suites.jsonrpc_rules import Subject
from conformance.suites.jsonrpc_scenarios import (
    LINES_WITHOUT_JSON,
    LINES_WITHOUT_MESSAGE,
    Act,
    Probe,
    ids,
    lines,
    running,
)
from conformance.traffic import Traffic
from conformance.values import at, is_list

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_NOT_FOUND: Final = -32002
_UNKNOWN: Final = "no-such-session"

# --- judges -----------------------------------------------------------------------------------------------------------


def _only_objects(traffic: Traffic) -> Verdict:
    """Each line is a JSON object, even the answer to an array."""
    for message in traffic.sent("server"):
        if is_list(message.value):
            return failed("a line is an array, and this version has no batches", message.index)
    return messages_only(traffic)


def _names_the_session(traffic: Traffic) -> Verdict:
    """Errors about an unknown session have its id in their data."""
    found = [request for request in marked_requests(traffic, "unknown-session") if request.answer is not None]
    for request in found:
        assert request.answer
        if request.answer.error.get("code") != _NOT_FOUND:
            continue
        if at(request.answer.error, "data.sessionId") != _UNKNOWN:
            return failed("the data of the error does not name the session", *evidence(request))
    return PASS if found else not_tested("the request was not sent")


_AGENT: Final = Subject("agent", prose, definition)

# --- requirements -----------------------------------------------------------------------------------------------------

_NO_REQUEST: Final = schema("/$defs/ErrorCode/anyOf/1", "The JSON sent is not a valid Request object.")
_INVALID_JSON: Final = schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server.")

REQUIREMENTS: Final = (
    Requirement(
        "ACP2-A-FRAME-001",
        "mandatory",
        "The agent writes only messages, one per line, and never an array of them.",
        schema("/anyOf/0", '"type": "object"'),
        _only_objects,
        violation='[{"jsonrpc":"2.0","id":1,"result":{}}]',
    ),
    rules.SURVIVES_MALFORMED_LINES.of(_AGENT, "ACP2-A-FRAME-002", _INVALID_JSON),
    Requirement(
        "ACP2-A-FRAME-003",
        "advisory",
        "The agent answers each line that is not JSON with a parse error without an id.",
        _INVALID_JSON,
        each_malformed_answered("no-json", _PARSE_ERROR),
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "ACP2-A-FRAME-004",
        "advisory",
        "If a line is JSON but not a message, the agent answers with an Invalid Request error without an id.",
        _NO_REQUEST,
        each_malformed_answered("no-message", _INVALID_REQUEST),
        scenario="malformed-lines",
        violation='"code":-32603 for the line `5`',
    ),
    Requirement(
        "ACP2-A-FRAME-005",
        "advisory",
        "The agent answers an array with one invalid request error, because there are no batches.",
        _NO_REQUEST,
        each_malformed_answered("array", _INVALID_REQUEST),
        scenario="array",
        violation="an answer to each request in the array",
    ),
    rules.VERSION.of(_AGENT, "ACP2-A-RPC-001", schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]')),
    rules.RESULT_OR_ERROR.of(_AGENT, "ACP2-A-RPC-002"),
    rules.ERROR_SHAPE.of(_AGENT, "ACP2-A-RPC-003", schema("/$defs/Error/required", '["code", "message"]')),
    rules.ANSWERS_ONCE.of(_AGENT, "ACP2-A-RPC-004"),
    rules.NOTIFICATIONS.of(_AGENT, "ACP2-A-RPC-005"),
    rules.IDS.of(
        _AGENT,
        "ACP2-A-RPC-006",
        schema("/$defs/RequestId", "The receiver MUST reply with the same value in the response."),
    ),
    rules.OWN_IDS.of(
        _AGENT,
        "ACP2-A-RPC-007",
        schema(
            "/$defs/RequestId", "A sender MUST NOT reuse an ID while a request with it is still awaiting a response."
        ),
    ),
    rules.UNKNOWN_METHOD.of(_AGENT, "ACP2-A-RPC-008"),
    rules.UNKNOWN_METHOD_CODE.of(
        _AGENT, "ACP2-A-RPC-009", schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available.")
    ),
    rules.EVERY_REQUEST.of(_AGENT, "ACP2-A-RPC-010"),
    Requirement(
        "ACP2-A-SESSION-001",
        "advisory",
        "A request for a session that does not exist is refused with -32002.",
        schema(
            "/$defs/SessionNotFoundErrorData",
            "Data for the `-32002` (Resource not found) error when a session-scoped request names a session that does "
            "not exist or is not active.",
        ),
        error_code_is("unknown-session", _NOT_FOUND, instead_of_result=True),
        scenario="unknown-session",
        violation='"code":-32603 for session/prompt',
    ),
    Requirement(
        "ACP2-A-SESSION-002",
        "mandatory",
        "The data of the error -32002 names the session.",
        schema("/$defs/SessionNotFoundErrorData/required", '["sessionId"]'),
        _names_the_session,
        scenario="unknown-session",
        violation='{"code":-32002,"message":"Resource not found"}',
    ),
)

# --- scenarios --------------------------------------------------------------------------------------------------------


def _open(driver: Driver) -> Probe:
    begin(driver)
    return Probe(driver, "session/new", {"cwd": driver.options.cwd})


def _malformed(probe: Probe) -> None:
    lines(*LINES_WITHOUT_JSON, label="no-json")(probe)
    lines(*LINES_WITHOUT_MESSAGE, label="no-message")(probe)


def _array(probe: Probe) -> None:
    requests = [request_message(probe.driver.new_id(), probe.method, probe.params) for _ in range(2)]
    lines(b"[]\n", encode_line(requests), label="array")(probe)


def _unknown_methods(probe: Probe) -> None:
    driver = probe.driver
    for method in ("session/rewindow_conformance", "session/load", "_rewindow_conformance/unknown"):
        driver.response(driver.request(method, {"sessionId": _UNKNOWN}, label="unknown"))
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        driver.notify(method, {"text": "nothing"})
    driver.notify("session/cancel", {"sessionId": open_session(driver)})
    driver.pause(0.3)


def _unknown_sessions(probe: Probe) -> None:
    driver = probe.driver
    prompt = [{"type": "text", "text": driver.options.prompt}]
    option = {"configId": "mode", "type": "id", "value": "x"}
    for method, params in (
        ("session/prompt", {"prompt": prompt}),
        ("session/set_config_option", option),
        ("session/resume", {"cwd": driver.options.cwd}),
    ):
        driver.response(driver.request(method, {"sessionId": _UNKNOWN, **params}, label="unknown-session"))


_ROWS: Final[tuple[tuple[str, str, Act], ...]] = (
    ("malformed-lines", "Send lines that are not JSON or not messages.", _malformed),
    ("array", "Send an array of requests, and an empty array.", _array),
    ("ids", "Send requests with ids of various types and sizes.", ids),
    ("unknown-methods", "Send unknown requests and notifications.", _unknown_methods),
    ("unknown-session", "Use a session that does not exist.", _unknown_sessions),
)
SCENARIOS: Final = tuple(Scenario(name, text, running(_open, act, True)) for name, text, act in _ROWS)
