"""Bytes and JSON-RPC messages of a client: framing, encoding, ids, errors, unknown methods, malformed input."""

from __future__ import annotations

from typing import Final

from conformance.judging import PASS, Requirement, Verdict, failed, not_tested, skipped, unanswered_reason
from conformance.suite import Scenario
from conformance.suites import jsonrpc_rules as rules
from conformance.suites.acp1 import (
    DECLARED_VERSION,
    ERROR_FIELDS,
    EXTENSION_REQUEST,
    ID_TYPES,
    IGNORED_NOTIFICATION,
    INVALID_JSON,
    LINE,
    METHOD_NAMES,
    OWN_FIELDS,
    SAME_ID,
    UNKNOWN_EXTENSION,
    UNKNOWN_METHOD,
    UTF8,
    definition,
    messages_fit,
    prose,
    schema,
)
from conformance.suites.acp1_client.agent import (
    PROBE,
    SIDE,
    InTurn,
    Turn,
    answered,
    if_probed,
    keeps_working,
    marked,
    then_probe,
)
from conformance.suites.jsonrpc import all_answered, no_processes_left
from conformance.suites.jsonrpc_rules import REPLY_QUOTE, Subject
from conformance.suites.jsonrpc_scenarios import (
    MALFORMED_LINES,
    UNUSUAL_TEXT,
    Act,
    Probe,
    long_line,
    scenarios,
)
from conformance.traffic import Traffic

_MESSAGE = "The client **MUST NOT** write anything to the agent's `stdin` that is not a valid ACP message."


# --- judges -----------------------------------------------------------------------------------------------------------


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

_CLIENT: Final = Subject(
    "client",
    prose,
    definition,
    side=SIDE,
    output="the agent's standard input",
    survived=keeps_working,
    accepts=lambda *labels: if_probed(answered(*labels)),
    if_probed=if_probed,
)


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    rules.MESSAGES_ONLY.of(_CLIENT, "ACP1-C-FRAME-001", prose("transports", _MESSAGE)),
    rules.UTF8.of(_CLIENT, "ACP1-C-FRAME-002", UTF8),
    rules.NEWLINE_AT_END.of(_CLIENT, "ACP1-C-FRAME-003", LINE),
    rules.NO_LONE_SURROGATES.of(_CLIENT, "ACP1-C-FRAME-004", UTF8),
    rules.SPLIT_WRITES.of(_CLIENT, "ACP1-C-FRAME-005", LINE),
    rules.JOINED_WRITES.of(_CLIENT, "ACP1-C-FRAME-006", LINE),
    rules.UNUSUAL_CHARACTERS.of(_CLIENT, "ACP1-C-FRAME-007", UTF8),
    rules.CR_LF.of(_CLIENT, "ACP1-C-FRAME-008", LINE),
    rules.SURVIVES_MALFORMED_LINES.of(_CLIENT, "ACP1-C-FRAME-009", INVALID_JSON),
    rules.BLANK_LINES.of(_CLIENT, "ACP1-C-FRAME-010", LINE),
    rules.NOT_UTF8.of(_CLIENT, "ACP1-C-FRAME-011", UTF8),
    rules.UNASKED_RESPONSE.of(_CLIENT, "ACP1-C-FRAME-012", SAME_ID),
    Requirement(
        "ACP1-C-FRAME-013",
        "informational",
        "The client accepts a message of 1 MB, such as the content of a large file.",
        LINE,
        keeps_working,
        scenario="long-line",
        violation="a client whose reader stops at 64 KiB",
    ),
    rules.LONG_LINE.of(_CLIENT, "ACP1-C-FRAME-014", LINE, scenario="very-long-line"),
    Requirement(
        "ACP1-C-FRAME-015",
        "advisory",
        "The client leaves no processes behind, including its agent.",
        prose("transports", "Client->>Agent Process: Close stdin, terminate subprocess"),
        no_processes_left,
        violation="a terminal's command that outlives its client",
    ),
    rules.VERSION.of(_CLIENT, "ACP1-C-RPC-001", DECLARED_VERSION),
    rules.RESULT_OR_ERROR.of(_CLIENT, "ACP1-C-RPC-002"),
    rules.ERROR_SHAPE.of(_CLIENT, "ACP1-C-RPC-003", ERROR_FIELDS),
    rules.ANSWERS_ONCE.of(_CLIENT, "ACP1-C-RPC-004"),
    rules.NOTIFICATIONS.of(_CLIENT, "ACP1-C-RPC-005"),
    rules.IDS.of(_CLIENT, "ACP1-C-RPC-006", SAME_ID),
    rules.OWN_IDS.of(_CLIENT, "ACP1-C-RPC-007", ID_TYPES),
    METHOD_NAMES.of(_CLIENT, "ACP1-C-RPC-008"),
    OWN_FIELDS.of(_CLIENT, "ACP1-C-RPC-009"),
    rules.UNKNOWN_METHOD.of(_CLIENT, "ACP1-C-RPC-010"),
    rules.UNKNOWN_METHOD_CODE.of(_CLIENT, "ACP1-C-RPC-011", UNKNOWN_METHOD),
    EXTENSION_REQUEST.of(_CLIENT, "ACP1-C-RPC-012"),
    UNKNOWN_EXTENSION.of(_CLIENT, "ACP1-C-RPC-013"),
    rules.UNKNOWN_NOTIFICATIONS.of(_CLIENT, "ACP1-C-RPC-014", IGNORED_NOTIFICATION),
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
        "The client answers every request that needs no action of the user.",
        prose("json-rpc", REPLY_QUOTE),
        all_answered(*_REFUSED, user=_OF_USERS, side=SIDE),
        violation="silence",
    ),
    Requirement(
        "ACP1-C-RPC-017",
        "mandatory",
        "Client messages that no other requirement covers have the schema's shape.",
        schema("/$defs/SetSessionConfigOptionRequest/required", '["sessionId", "configId"]'),
        messages_fit(SIDE, *_OTHERS),
        violation='{"configId":"model","value":"large"} as the params of session/set_config_option',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_LONG: Final = 1024 * 1024
_LONG_METHOD: Final = "_rewindow_conformance/long"


def _run(act: Act, _: bool = True) -> InTurn:
    return then_probe(lambda turn: act(Probe(turn.driver, PROBE)))


def _run_unusual(turn: Turn) -> None:
    turn.driver.response(turn.driver.request(PROBE, {"text": UNUSUAL_TEXT, UNUSUAL_TEXT: 1}, label="unusual"))


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
    *scenarios(_run, (*MALFORMED_LINES, b"[]\n")),
    Scenario(
        "unusual-characters",
        "Sends requests with line separators and characters outside the basic plane.",
        then_probe(_run_unusual),
    ),
    Scenario("long-line", "Sends a notification of 1 MB.", _run(long_line(_LONG_METHOD, _LONG)), alone=True),
    Scenario("very-long-line", "Sends a notification of 50 MB.", _run(long_line(_LONG_METHOD)), alone=True),
    Scenario("unknown-methods", "Calls methods that do not exist.", InTurn(_run_unknown)),
    Scenario(
        "unadvertised-methods",
        "Calls methods that the client does not advertise, which agents must not do.",
        InTurn(_run_unadvertised),
    ),
    Scenario("unknown-notifications", "Sends notifications that do not exist.", then_probe(_run_notifications)),
)
