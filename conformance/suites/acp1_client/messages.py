"""Bytes and JSON-RPC messages of a client: framing, encoding, ids, errors, unknown methods, malformed input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from conformance.driver import METHOD_NOT_FOUND, encode_line, request_message
from conformance.judging import PASS, Requirement, Verdict, every, failed, not_tested, skipped, unanswered_reason
from conformance.suite import Scenario
from conformance.suites.acp1 import (
    definition,
    error_problem,
    messages_fit,
    method_problem,
    no_own_fields,
    prose,
    schema,
)
from conformance.suites.acp1_client.agent import (
    PROBE,
    SIDE,
    InTurn,
    Turn,
    answered,
    answers_unusual_form,
    if_probed,
    keeps_working,
    marked,
    then_probe,
)
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
    message_objects,
    messages_only,
    newline_at_end,
    no_lone_surrogates,
    no_message,
    no_processes_left,
    notifications_unanswered,
    own_ids_are_valid,
    responses,
    responses_match,
    utf8,
    version_problem,
)
from conformance.traffic import Message, Traffic

_MESSAGE = "The client **MUST NOT** write anything to the agent's `stdin` that is not a valid ACP message."
_LINE = "Messages are delimited by newlines (`\\n`), and **MUST NOT** contain embedded newlines."
_UTF8 = "JSON-RPC messages **MUST** be UTF-8 encoded."


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


def _objects(traffic: Traffic) -> list[Message]:
    return message_objects(traffic, SIDE)


def _responses(traffic: Traffic) -> list[Message]:
    return responses(traffic, SIDE)


def _calls(traffic: Traffic) -> list[Message]:
    return [message for message in _objects(traffic) if message.method]


def _no_response() -> Verdict:
    return skipped("the client received no request")


def _refuses_unadvertised(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "unadvertised")
    if not requests:
        done = traffic.requests(SIDE, "session/prompt")
        return skipped("the client advertises everything") if done else not_tested("the client sent no prompt")
    for request in requests:
        declined = request.answer is not None and request.answer.result.get("action") in ("decline", "cancel")
        if request.succeeded and not declined:
            return failed(f"{request.method}, which is not advertised, was answered with a result", request.index)
        if request.answer is None:
            return failed(
                unanswered_reason(traffic, request, f"{request.method}, which is not advertised,"), request.index
            )
    return PASS


_REFUSED: Final = (
    *("before", "unadvertised", "whole", "missing", "relative", "new", "over", "started", "output", "wait"),
    *("release", "kill", "unknown-terminal"),
)
"""Marks of requests that only success can answer, or that a client may refuse against advice."""
_OF_USERS: Final = frozenset({"session/request_permission", "elicitation/create"})

_OTHERS: Final = (
    "AuthenticateRequest",
    "LogoutRequest",
    "LoadSessionRequest",
    "ResumeSessionRequest",
    "ListSessionsRequest",
    "DeleteSessionRequest",
    "CloseSessionRequest",
    "SetSessionModeRequest",
    "SetSessionConfigOptionRequest",
    "CancelRequestNotification",
    "KillTerminalResponse",
    "ReleaseTerminalResponse",
)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-FRAME-001",
        "mandatory",
        "The client writes only messages to the agent's standard input, one per line.",
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
        "The client ends each message with a newline, including the last one.",
        prose("transports", _LINE),
        partial(newline_at_end, side=SIDE),
        violation='{"jsonrpc":"2.0","id":1,"result":{}} and no newline before the client ends',
    ),
    Requirement(
        "ACP1-C-FRAME-004",
        "informational",
        "The client's strings contain no lone surrogates.",
        prose("transports", _UTF8),
        partial(no_lone_surrogates, side=SIDE),
        violation='"text":"\\ud83d"',
    ),
    Requirement(
        "ACP1-C-FRAME-005",
        "mandatory",
        "The client accepts a message in many small pieces.",
        prose("transports", _LINE),
        answers_unusual_form,
        scenario="split-writes",
        violation="the second half of a line, treated as a separate message",
    ),
    Requirement(
        "ACP1-C-FRAME-006",
        "mandatory",
        "The client accepts several messages in one write.",
        prose("transports", _LINE),
        answers_unusual_form,
        scenario="joined-writes",
        violation="one of three requests answered",
    ),
    Requirement(
        "ACP1-C-FRAME-007",
        "mandatory",
        "The client accepts line separators and characters outside the basic plane in strings.",
        prose("transports", _UTF8),
        answers_unusual_form,
        scenario="unusual-characters",
        violation="a message split at U+2028",
    ),
    Requirement(
        "ACP1-C-FRAME-008",
        "informational",
        "The client accepts a line that ends with CR LF, because JSON allows CR as white space.",
        prose("transports", _LINE),
        answers_unusual_form,
        scenario="crlf",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-FRAME-009",
        "advisory",
        "The client keeps working after lines that are not messages.",
        schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server."),
        keeps_working,
        scenario="malformed-lines",
        violation="a client that ends at the line `[]`",
    ),
    Requirement(
        "ACP1-C-FRAME-010",
        "informational",
        "The client ignores empty lines.",
        prose("transports", _LINE),
        keeps_working,
        scenario="blank-lines",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-011",
        "informational",
        "The client keeps working after a line that is not UTF-8.",
        prose("transports", _UTF8),
        keeps_working,
        scenario="not-utf8",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-012",
        "informational",
        "The client keeps working after responses to no request.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        keeps_working,
        scenario="unasked-response",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-013",
        "informational",
        "The client accepts a message of 1 MB, as for the content of a large file.",
        prose("transports", _LINE),
        keeps_working,
        scenario="long-line",
        violation="a client whose reader stops at 64 KiB",
    ),
    Requirement(
        "ACP1-C-FRAME-014",
        "informational",
        "The client keeps working after a line of 50 MB, accepted or not.",
        prose("transports", _LINE),
        keeps_working,
        scenario="very-long-line",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-FRAME-015",
        "advisory",
        "The client leaves no processes behind, including its agent.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        no_processes_left,
        violation="a terminal's command that outlives its client",
    ),
    Requirement(
        "ACP1-C-RPC-001",
        "mandatory",
        "Every message of the client declares JSON-RPC 2.0.",
        schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]'),
        every(_objects, version_problem, no_message),
        violation='{"id":1,"method":"initialize","params":{}}',
    ),
    Requirement(
        "ACP1-C-RPC-002",
        "mandatory",
        "A response of the client has either a result or an error.",
        prose("json-rpc", RESULT_OR_ERROR_QUOTE),
        every(_objects, form_problem, no_message),
        violation='{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32603,"message":"Internal error"}}',
    ),
    Requirement(
        "ACP1-C-RPC-003",
        "mandatory",
        "An error of the client has an integer code and a message.",
        schema("/$defs/Error/required", '["code", "message"]'),
        every(_responses, error_problem, _no_response),
        violation='{"jsonrpc":"2.0","id":1,"error":"no such file"}',
    ),
    Requirement(
        "ACP1-C-RPC-004",
        "mandatory",
        "The client answers only requests, and each of them once.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        partial(responses_match, side=SIDE),
        violation="two responses with the id 3",
    ),
    Requirement(
        "ACP1-C-RPC-005",
        "mandatory",
        "The client answers no notification.",
        prose(
            "json-rpc", "The Server MUST NOT reply to a Notification, including those that are within a batch request."
        ),
        partial(notifications_unanswered, side=SIDE),
        violation='{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}',
    ),
    Requirement(
        "ACP1-C-RPC-006",
        "mandatory",
        "The client's responses repeat ids exactly, whatever their type.",
        schema("/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."),
        if_probed(partial(ids_preserved, side=SIDE)),
        scenario="ids",
        violation='the request with the id "7" answered with the id 7',
    ),
    Requirement(
        "ACP1-C-RPC-007",
        "mandatory",
        "The client's own requests have valid ids, and pending requests have different ones.",
        schema("/$defs/RequestId", "MUST contain a String, Number, or NULL value if included."),
        own_ids_are_valid(definition("RequestId"), SIDE),
        violation="session/new with the id of initialize, which was not answered yet",
    ),
    Requirement(
        "ACP1-C-RPC-008",
        "advisory",
        "The client calls only methods of the protocol, or methods that begin with an underscore.",
        prose(
            "extensibility",
            (
                "implementations **MAY** expose and call custom JSON-RPC requests as long as their "
                "name starts with an underscore (`_`)."
            ),
        ),
        every(_calls, method_problem, lambda: skipped("the client called nothing")),
        violation='{"jsonrpc":"2.0","id":1,"method":"session/telemetry","params":{}}',
    ),
    Requirement(
        "ACP1-C-RPC-009",
        "mandatory",
        "The client adds no fields of its own to protocol types outside `_meta`.",
        prose(
            "extensibility",
            (
                "Implementations **MUST NOT** add any custom fields at the root of a type that's "
                "part of the specification."
            ),
        ),
        no_own_fields(SIDE),
        violation='{"cwd":"/project","mcpServers":[],"theme":"dark"}',
    ),
    Requirement(
        "ACP1-C-RPC-010",
        "mandatory",
        "The client answers an unknown method.",
        prose("json-rpc", REPLY_QUOTE),
        answered("unknown"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-011",
        "advisory",
        "The answer to an unknown method is the error -32601.",
        schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available."),
        error_code_is("unknown", METHOD_NOT_FOUND, instead_of_result=True, by="server"),
        scenario="unknown-methods",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-C-RPC-012",
        "mandatory",
        "The client answers every extension request, known or not.",
        prose(
            "extensibility",
            "Upon receiving a custom request, implementations **MUST** respond accordingly with the provided `id`:",
        ),
        answered("extension"),
        scenario="unknown-methods",
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-013",
        "advisory",
        "The client answers an unknown extension request with -32601.",
        prose(
            "extensibility",
            (
                "If the receiving end doesn't recognize the custom method name, it should respond "
                'with the standard "Method not found" error:'
            ),
        ),
        error_code_is("extension", METHOD_NOT_FOUND, instead_of_result=True, by="server"),
        scenario="unknown-methods",
        violation='{"result":null}',
    ),
    Requirement(
        "ACP1-C-RPC-014",
        "advisory",
        "The client ignores unknown notifications.",
        prose(
            "extensibility",
            "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications.",
        ),
        keeps_working,
        scenario="unknown-notifications",
        violation="a client that ends",
    ),
    Requirement(
        "ACP1-C-RPC-015",
        "advisory",
        "The client answers methods that it does not advertise with errors.",
        prose(
            "initialization",
            (
                "Clients and Agents **MUST** treat all capabilities omitted in the `initialize` request as "
                "**UNSUPPORTED**."
            ),
        ),
        _refuses_unadvertised,
        scenario="unadvertised-methods",
        violation='{"result":{"terminalId":"t1"}} of a client without the capability `terminal`',
    ),
    Requirement(
        "ACP1-C-RPC-016",
        "mandatory",
        "The client answers every request that does not wait for its user.",
        prose("json-rpc", REPLY_QUOTE),
        all_answered(*_REFUSED, user=_OF_USERS, side=SIDE),
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-017",
        "mandatory",
        "Client messages without a requirement of their own have the schema's shape.",
        schema("/$defs/SetSessionConfigOptionRequest/required", '["sessionId", "configId"]'),
        messages_fit(SIDE, *_OTHERS),
        violation='{"configId":"model","value":"large"} as the params of session/set_config_option',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_LONG: Final = 1024 * 1024


def _run_split(turn: Turn) -> None:
    driver = turn.driver
    request = driver.new_id()
    driver.mark("asked", request)
    data = encode_line(request_message(request, PROBE, {"text": WIDE_TEXT}))
    step = max(1, len(data) // 16)
    for start in range(0, len(data), step):
        driver.send_bytes(data[start : start + step])
        driver.pause(0.01)
    driver.response(request)


def _run_joined(turn: Turn) -> None:
    driver = turn.driver
    requests = [driver.new_id() for _ in range(3)]
    for request in requests:
        driver.mark("asked", request)
    driver.send_bytes(b"".join(encode_line(request_message(request, PROBE, {})) for request in requests))
    for request in requests:
        driver.response(request)


def _run_unusual(turn: Turn) -> None:
    turn.driver.response(turn.driver.request(PROBE, {"text": UNUSUAL_TEXT, UNUSUAL_TEXT: 1}, label="asked"))


def _run_crlf(turn: Turn) -> None:
    driver = turn.driver
    request = driver.new_id()
    driver.mark("asked", request)
    driver.send_bytes(encode_line(request_message(request, PROBE, {})).replace(b"\n", b"\r\n"))
    driver.response(request)


def _run_lines(*lines: bytes) -> Callable[[Turn], None]:
    """Send lines that are not requests. Each may be answered with an error without an id."""

    def act(turn: Turn) -> None:
        for one in lines:
            turn.driver.mark("malformed", one.decode(errors="replace")[:80])
            turn.driver.send_bytes(one)
            turn.driver.pause(0.05)

    return act


def _run_long(size: Callable[[Turn], int]) -> Callable[[Turn], None]:
    def act(turn: Turn) -> None:
        length = size(turn)
        turn.driver.mark("long-line", length)
        head = encode_line({"jsonrpc": "2.0", "method": "_rewindow_conformance/long", "params": {"text": ""}})
        turn.driver.send_bytes(head.replace(b'""', b'"' + b"x" * length + b'"'), generated=True)

    return act


def _run_ids(turn: Turn) -> None:
    for value in ("a string", "7", "", 0, -1, 2**53 - 1):
        turn.driver.request(PROBE, {}, label="id", request_id=value)
        turn.driver.response(value)


def _run_unknown(turn: Turn) -> None:
    for label, method in (("unknown", "session/rewindow_conformance"), ("extension", "_rewindow_conformance/unknown")):
        turn.driver.response(turn.driver.request(method, {}, label=label))


def _run_unadvertised(turn: Turn) -> None:
    path = f"{turn.cwd}/rewindow-conformance-no-such-file"
    if not turn.offers("fs.readTextFile"):
        turn.call("fs/read_text_file", "unadvertised", path=path)
    if not turn.offers("fs.writeTextFile"):
        turn.call("fs/write_text_file", "unadvertised", path="/rewindow-conformance/no/such/file", content="")
    if not turn.offers("terminal"):
        turn.call("terminal/create", "unadvertised", command="true")
        turn.call("terminal/output", "unadvertised", terminalId="none")
    if not turn.offers("elicitation.url"):
        asked = {"mode": "url", "elicitationId": "e1", "url": "https://example.org/", "message": "Open this page"}
        turn.call("elicitation/create", "unadvertised", **asked)


def _run_notifications(turn: Turn) -> None:
    for method in ("_rewindow_conformance/note", "$/rewindow_conformance", "session/rewindow_conformance"):
        turn.driver.mark("notification", method)
        turn.driver.notify(method, {"text": "nothing"})
    turn.driver.notify("_rewindow_conformance/bare")


SCENARIOS: Final = (
    Scenario(
        "split-writes", "Sends a request in many small writes, some of which split a character.", then_probe(_run_split)
    ),
    Scenario("joined-writes", "Sends three requests in one write.", then_probe(_run_joined)),
    Scenario(
        "unusual-characters",
        "Sends requests with line separators and characters outside the basic plane.",
        then_probe(_run_unusual),
    ),
    Scenario("crlf", "Ends a line with CR LF.", then_probe(_run_crlf)),
    Scenario(
        "malformed-lines",
        "Sends lines that are not JSON or not messages.",
        then_probe(_run_lines(*MALFORMED_LINES, b"[]\n")),
    ),
    Scenario("blank-lines", "Sends empty lines.", then_probe(_run_lines(b"\n", b"   \n", b"\r\n"))),
    Scenario("not-utf8", "Sends a line that is not UTF-8.", then_probe(_run_lines(NOT_UTF8_LINE))),
    Scenario("unasked-response", "Sends responses to no request.", then_probe(_run_lines(*UNASKED_RESPONSES))),
    Scenario("long-line", "Sends a notification of 1 MB.", then_probe(_run_long(lambda _: _LONG)), alone=True),
    Scenario(
        "very-long-line",
        "Sends a notification of 50 MB.",
        then_probe(_run_long(lambda turn: turn.driver.options.long_line)),
        alone=True,
    ),
    Scenario("ids", "Sends requests with ids of several types and sizes.", then_probe(_run_ids)),
    Scenario("unknown-methods", "Calls methods that do not exist.", InTurn(_run_unknown)),
    Scenario(
        "unadvertised-methods",
        "Calls methods that the client does not advertise, which agents must not do.",
        InTurn(_run_unadvertised),
    ),
    Scenario("unknown-notifications", "Sends notifications that do not exist.", then_probe(_run_notifications)),
)
