"""What JSON-RPC and the schema demand of single messages in version 2: lines, ids, errors, unknown sessions.

Version 2 has no batches. The sentences of JSON-RPC itself are vendored with version 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import METHOD_NOT_FOUND, Driver, encode_line, request_message
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    every,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    survived,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import prose
from conformance.suites.acp2 import begin, definition, open_session, schema
from conformance.suites.jsonrpc import (
    REPLY_QUOTE,
    RESULT_OR_ERROR_QUOTE,
    all_answered,
    error_code_is,
    form_problem,
    ids_preserved,
    message_objects,
    messages_only,
    no_message,
    notifications_unanswered,
    own_ids_are_valid,
    responses,
    responses_match,
    version_problem,
)
from conformance.traffic import Message, Traffic
from conformance.values import at, is_list

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_NOT_FOUND: Final = -32002
_UNKNOWN: Final = "no-such-session"
_NO_JSON: Final = (b"{\n", b"not json at all\n", b'{"jsonrpc":"2.0","id":901,"method"\n')
_NO_MESSAGES: Final = (b"5\n", b'"text"\n', b"null\n", b"{}\n")

# --- judges -----------------------------------------------------------------------------------------------------------


def _only_objects(traffic: Traffic) -> Verdict:
    """Each line is a JSON object, even the answer to an array."""
    for message in traffic.sent("server"):
        if is_list(message.value):
            return failed("a line is an array, and this version has no batches", message.index)
    return messages_only(traffic)


def _error_problem(message: Message) -> str:
    if "error" not in message.object or "result" in message.object:
        return ""
    wrong = definition("Error")(message.object["error"])
    return f"the error: {wrong}" if wrong else ""


def _each_refused(label: str, code: int) -> Judge:
    """Each line under this mark has a response with this code and without an id."""

    def judge(traffic: Traffic) -> Verdict:
        sent = len(traffic.marks(label))
        if not sent:
            return not_tested("the lines were not sent")
        if survived(traffic) != PASS:
            return skipped("the program did not go on after the lines")
        codes = [answer.error.get("code") for answer in responses(traffic) if answer.id is None]
        if codes.count(code) >= sent:
            return PASS
        shown = [message.index for message in traffic.messages if message.sender == "client" and not message.object]
        given = f"the codes were {codes}" if codes else "no error without an id came"
        return failed(f"{sent} such lines were sent, and not each was answered with {code}: {given}", *shown)

    return judge


def _names_the_session(traffic: Traffic) -> Verdict:
    """Errors about an unknown session have its id in their data."""
    found = [request for request in marked_requests(traffic, "unknown-session") if request.answer is not None]
    for request in found:
        assert request.answer
        if request.answer.error.get("code") != _NOT_FOUND:
            continue
        if at(request.answer.error, "data.sessionId") != _UNKNOWN:
            return failed("the data of the error do not name the session", *evidence(request))
    return PASS if found else not_tested("the request was not sent")


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
    Requirement(
        "ACP2-A-FRAME-002",
        "advisory",
        "The agent keeps working after lines that are not JSON, or no messages.",
        _INVALID_JSON,
        survived,
        scenario="malformed-lines",
        violation="an agent that exits at the line `5`",
    ),
    Requirement(
        "ACP2-A-FRAME-003",
        "advisory",
        "The agent answers each line that is not JSON with a parse error without an id.",
        _INVALID_JSON,
        _each_refused("no-json", _PARSE_ERROR),
        scenario="malformed-lines",
        violation="silence",
    ),
    Requirement(
        "ACP2-A-FRAME-004",
        "advisory",
        "The agent answers each line of JSON that is no message with an invalid request error without an id.",
        _NO_REQUEST,
        _each_refused("no-message", _INVALID_REQUEST),
        scenario="malformed-lines",
        violation='"code":-32603 for the line `5`',
    ),
    Requirement(
        "ACP2-A-FRAME-005",
        "advisory",
        "The agent answers an array with one invalid request error, because there are no batches.",
        _NO_REQUEST,
        _each_refused("array", _INVALID_REQUEST),
        scenario="array",
        violation="an answer to each request in the array",
    ),
    Requirement(
        "ACP2-A-RPC-001",
        "mandatory",
        "Every message of the agent declares JSON-RPC 2.0.",
        schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]'),
        every(message_objects, version_problem, no_message),
        violation='{"id":1,"result":{}}',
    ),
    Requirement(
        "ACP2-A-RPC-002",
        "mandatory",
        "A response of the agent has either a result or an error.",
        prose("json-rpc", RESULT_OR_ERROR_QUOTE),
        every(message_objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "ACP2-A-RPC-003",
        "mandatory",
        "An error of the agent has an integer code and a message.",
        schema("/$defs/Error/required", '["code", "message"]'),
        every(responses, _error_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such session"}',
    ),
    Requirement(
        "ACP2-A-RPC-004",
        "mandatory",
        "The agent answers only requests, and each of them once.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        responses_match,
        violation="two responses with the id 3",
    ),
    Requirement(
        "ACP2-A-RPC-005",
        "mandatory",
        "The agent answers no notification.",
        prose(
            "json-rpc", "The Server MUST NOT reply to a Notification, including those that are within a batch request."
        ),
        notifications_unanswered,
        scenario="unknown-methods",
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP2-A-RPC-006",
        "mandatory",
        "The agent's responses repeat ids exactly, whatever their type.",
        schema("/$defs/RequestId", "The receiver MUST reply with the same value in the response."),
        ids_preserved,
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "ACP2-A-RPC-007",
        "mandatory",
        "The agent's own requests have valid ids, and pending requests have different ones.",
        schema(
            "/$defs/RequestId",
            "A sender MUST NOT reuse an ID while a request with it is still awaiting a response.",
        ),
        own_ids_are_valid(definition("RequestId")),
        scenario="tool-turn",
        violation='{"jsonrpc":"2.0","id":1.5,"method":"session/request_permission", ... }',
    ),
    Requirement(
        "ACP2-A-RPC-008",
        "mandatory",
        "The agent answers an unknown method.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown-method"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP2-A-RPC-009",
        "advisory",
        "The answer to an unknown method is the error -32601.",
        schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available."),
        error_code_is("unknown-method", METHOD_NOT_FOUND, instead_of_result=True),
        scenario="unknown-methods",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP2-A-RPC-010",
        "mandatory",
        "The agent answers every request.",
        prose("json-rpc", REPLY_QUOTE),
        all_answered(),
        violation="silence",
    ),
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
        "The data of such an error name the session.",
        schema("/$defs/SessionNotFoundErrorData/required", '["sessionId"]'),
        _names_the_session,
        scenario="unknown-session",
        violation='{"code":-32002,"message":"Resource not found"}',
    ),
)

# --- scenarios --------------------------------------------------------------------------------------------------------


def _alive(driver: Driver) -> None:
    """End a scenario: the agent still opens a session."""
    driver.response(driver.request("session/new", {"cwd": driver.options.cwd}, label="alive"))


def _send(driver: Driver, label: str, lines: tuple[bytes, ...]) -> None:
    for line in lines:
        driver.mark(label, line.decode())
        driver.send_bytes(line)
        driver.pause(0.1)


def _malformed(driver: Driver) -> None:
    begin(driver)
    _send(driver, "no-json", _NO_JSON)
    _send(driver, "no-message", _NO_MESSAGES)
    _alive(driver)


def _array(driver: Driver) -> None:
    begin(driver)
    requests = [request_message(driver.new_id(), "session/new", {"cwd": driver.options.cwd}) for _ in range(2)]
    _send(driver, "array", (b"[]\n", b"[" + b",".join(encode_line(each).strip() for each in requests) + b"]\n"))
    _alive(driver)


def _ids(driver: Driver) -> None:
    begin(driver)
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        driver.request("session/new", {"cwd": driver.options.cwd}, label="id", request_id=value)
        driver.response(value)
    _alive(driver)


def _unknown_methods(driver: Driver) -> None:
    begin(driver)
    for method in ("session/rewindow_conformance", "session/load", "_rewindow_conformance/unknown"):
        driver.response(driver.request(method, {"sessionId": _UNKNOWN}, label="unknown-method"))
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        driver.notify(method, {"text": "nothing"})
    driver.notify("session/cancel", {"sessionId": open_session(driver)})
    driver.pause(0.3)
    _alive(driver)


def _unknown_sessions(driver: Driver) -> None:
    begin(driver)
    prompt = [{"type": "text", "text": driver.options.prompt}]
    option = {"configId": "mode", "type": "id", "value": "x"}
    for method, params in (
        ("session/prompt", {"prompt": prompt}),
        ("session/set_config_option", option),
        ("session/resume", {"cwd": driver.options.cwd}),
    ):
        driver.response(driver.request(method, {"sessionId": _UNKNOWN, **params}, label="unknown-session"))
    _alive(driver)


_ROWS: Final[tuple[tuple[str, str, Callable[[Driver], None]], ...]] = (
    ("malformed-lines", "Send lines that are not JSON, or no messages.", _malformed),
    ("array", "Send an array of requests, and an empty one.", _array),
    ("ids", "Send requests with ids of various types and sizes.", _ids),
    ("unknown-methods", "Send unknown requests and notifications.", _unknown_methods),
    ("unknown-session", "Use a session that does not exist.", _unknown_sessions),
)
SCENARIOS: Final = tuple(Scenario(name, text, run) for name, text, run in _ROWS)
