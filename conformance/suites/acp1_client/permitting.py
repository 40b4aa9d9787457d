"""Permission requests and cancels: the client's outcomes, and pending requests when it cancels a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import StoppedError
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    every,
    evidence,
    failed,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import params_fit, prose, results_fit, schema, session_of
from conformance.suites.acp1_client.agent import QUIET, SIDE, InTurn, Turn, marked, session_ids
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, at

_METHOD: Final = "session/request_permission"
CANCEL_NOW: Final = "Please cancel this turn now; a test waits for that."


def _asked(traffic: Traffic) -> list[Message]:
    return traffic.requests("server", _METHOD)


def _selected(traffic: Traffic) -> list[Message]:
    return [r for r in _asked(traffic) if r.answer is not None and at(r.answer.result, "outcome.outcome") == "selected"]


def _option(request: Message) -> str:
    assert request.answer
    chosen = at(request.answer.result, "outcome.optionId")
    offered = [as_object(option).get("optionId") for option in as_list(request.params.get("options"))]
    return "" if chosen in offered else f"the option {chosen!r} was chosen, but {offered} were offered"


def _none_chosen() -> Verdict:
    return skipped("the client chose no option; a setting of the client may answer without a person")


def _with_outcome(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "permission")
    answers = [request for request in requests if request.answer is not None]
    for request in answers:
        if not request.succeeded:
            return failed("a permission was answered with an error", *evidence(request))
    return PASS if answers else _unanswered(requests)


def _unanswered(requests: list[Message]) -> Verdict:
    if not requests:
        return not_tested("the client received no permission request")
    return skipped("the client answered no permission; a setting of the client may answer without a person")


def _each_answered(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "permission")
    if not any(request.answer is not None for request in requests):
        return _unanswered(requests)
    for request in requests:
        if request.answer is None:
            return failed(unanswered_reason(traffic, request, "one of two permissions"), request.index)
    return PASS


def _cancelled_needs_cancel(traffic: Traffic) -> Verdict:
    has_cancelled = any(message.method == "session/cancel" for message in traffic.sent(SIDE))
    answered = [request for request in _asked(traffic) if request.answer is not None]
    for request in answered:
        answer = request.answer
        if answer is None or at(answer.result, "outcome.outcome") != "cancelled":
            continue
        if not has_cancelled:
            return failed(
                "a permission was answered with cancelled, but its turn was not cancelled", *evidence(request)
            )
    return PASS if answered else _none_chosen()


def _pending_cancelled(traffic: Traffic) -> Verdict:
    """Permissions that are pending when their turn is cancelled have the outcome cancelled."""
    waited = [
        (cancel, request)
        for cancel in traffic.notifications(SIDE, "session/cancel")
        for request in _asked(traffic)
        if session_of(request) == session_of(cancel)
        and request.order < cancel.order
        and (request.answer is None or request.answer.order > cancel.order)
    ]
    ended = {session_of(p) for p in traffic.requests(SIDE, "session/prompt") if p.answer is not None}
    for cancel, request in waited:
        if request.answer is None and session_of(cancel) not in ended:
            return skipped("the connection ended before the cancelled turn ended")
        if request.answer is None:
            return failed(
                unanswered_reason(traffic, request, "a pending permission of the cancelled turn"),
                request.index,
                cancel.index,
            )
        if at(request.answer.result, "outcome.outcome") != "cancelled":
            return failed(
                "a pending permission of the cancelled turn was not answered with cancelled", *evidence(request)
            )
    return PASS if waited else skipped("no permission was pending when a turn was cancelled")


def _known_cancel(traffic: Traffic) -> Verdict:
    cancels = traffic.notifications(SIDE, "session/cancel")
    for cancel in cancels:
        if session_of(cancel) not in session_ids(traffic):
            return failed(f"the cancel names the unknown session {session_of(cancel)!r}", cancel.index)
    return PASS if cancels else skipped("the client cancelled no turn")


def _no_request(traffic: Traffic) -> Verdict:
    for request in traffic.requests(SIDE, "session/cancel"):
        return failed("session/cancel has an id, which makes it a request", request.index)
    done = traffic.notifications(SIDE, "session/cancel")
    return PASS if done else skipped("the client cancelled no turn")


def _after_cancel(then: Callable[[Traffic], Verdict]) -> Callable[[Traffic], Verdict]:
    def judge(traffic: Traffic) -> Verdict:
        if not traffic.notifications(SIDE, "session/cancel"):
            return skipped("the client did not cancel its turn on SIGINT")
        return then(traffic)

    return judge


def _takes_more(traffic: Traffic) -> Verdict:
    probes = marked(traffic, "alive")
    if any(probe.answer is not None for probe in probes):
        return PASS
    if traffic.marks("output-closed"):
        return failed("the client closed the connection before its turn had ended")
    return skipped("the client does not answer unknown requests, so the suite cannot tell whether it keeps working")


_MUST = "The Client **MUST** respond to all pending `session/request_permission` requests with the `cancelled` outcome."


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-PERM-001",
        "mandatory",
        "The client's answer to a permission has the schema's shape.",
        schema("/$defs/RequestPermissionResponse/required", '["outcome"]'),
        results_fit(_METHOD, "RequestPermissionResponse", SIDE),
        violation='{"outcome":"allow"}',
    ),
    Requirement(
        "ACP1-C-PERM-002",
        "advisory",
        "The client chooses only options that were offered.",
        schema("/$defs/SelectedPermissionOutcome/properties/optionId", "The ID of the option the user selected."),
        every(_selected, _option, _none_chosen),
        violation='"optionId":"allow", and the options were `x` and `y`',
    ),
    Requirement(
        "ACP1-C-PERM-003",
        "mandatory",
        "When a turn is cancelled, its pending permissions are answered with cancelled.",
        prose("prompt-turn", _MUST),
        _pending_cancelled,
        violation="silence after session/cancel",
    ),
    Requirement(
        "ACP1-C-PERM-004",
        "advisory",
        "The client answers a permission with an outcome, not with an error.",
        prose("tool-calls", "The Client responds with the user's decision:"),
        _with_outcome,
        scenario="permission",
        violation='"code":-32601 for session/request_permission',
    ),
    Requirement(
        "ACP1-C-PERM-005",
        "mandatory",
        "The client answers both of two parallel permission requests.",
        prose(
            "json-rpc",
            "When a rpc call is made, the Server MUST reply with a Response, except for in the case of Notifications.",
        ),
        _each_answered,
        scenario="permissions-at-once",
        violation="a second dialogue that replaces the first",
    ),
    Requirement(
        "ACP1-C-PERM-006",
        "advisory",
        "The client answers a permission with cancelled only after it cancelled the turn.",
        prose("tool-calls", "The user's decision, either: - `cancelled` - The [prompt turn was cancelled]"),
        _cancelled_needs_cancel,
        violation='"outcome":"cancelled" for a refusal',
    ),
    Requirement(
        "ACP1-C-CANCEL-001",
        "mandatory",
        "The client's session/cancel has the schema's shape.",
        schema("/$defs/CancelNotification/required", '["sessionId"]'),
        params_fit("session/cancel", "CancelNotification", SIDE, notification=True),
        violation="{}",
    ),
    Requirement(
        "ACP1-C-CANCEL-002",
        "advisory",
        "The client cancels only in sessions that were opened.",
        schema("/$defs/CancelNotification/properties/sessionId", "The ID of the session to cancel operations for."),
        _known_cancel,
        violation='"sessionId":"default"',
    ),
    Requirement(
        "ACP1-C-CANCEL-003",
        "advisory",
        "The client cancels with a notification.",
        schema(
            "/$defs/ClientNotification/properties/params/anyOf/0/anyOf/0",
            "This is a notification sent by the client to cancel an ongoing prompt turn.",
        ),
        _no_request,
        violation='{"jsonrpc":"2.0","id":4,"method":"session/cancel",...}',
    ),
    Requirement(
        "ACP1-C-CANCEL-004",
        "advisory",
        "The client accepts updates after its cancel until the turn has ended.",
        prose(
            "prompt-turn",
            "The Client **SHOULD** still accept tool call updates received after sending `session/cancel`.",
        ),
        _after_cancel(_takes_more),
        scenario="cancel",
        violation="a client that exits at the first update after its cancel",
    ),
    Requirement(
        "ACP1-C-ELICIT-001",
        "capability",
        "A client that advertises forms answers them in the schema's shape.",
        schema("/$defs/CreateElicitationResponse", '"type": "object"'),
        results_fit("elicitation/create", "CreateElicitationResponse", SIDE),
        scenario="elicitation",
        applies="elicitation.form",
        violation='{"outcome":"decline"}',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_USUAL: Final[list[Object]] = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]
_UNUSUAL: Final[list[Object]] = [
    {"optionId": "\u00e9 \u4e2d \U0001f600 " + "x" * 200, "name": "Yes", "kind": "allow_once", "_meta": {"a": 1}},
    {"optionId": "x", "name": "No", "kind": "reject_once"},
]
_REFUSALS: Final[list[Object]] = [{"optionId": "stop", "name": "Stop", "kind": "reject_once"}]


def _ask(turn: Turn, call: str, options: list[Object], label: str = "permission") -> int:
    turn.update("tool_call", toolCallId=call, title="Write a file", kind="edit", status="pending")
    return turn.ask("session/request_permission", label, toolCall={"toolCallId": call}, options=options)


def _run_permission(turn: Turn) -> None:
    turn.driver.response(_ask(turn, "call-1", _USUAL))


def _run_unusual(turn: Turn) -> None:
    for call, options in (("call-1", _UNUSUAL), ("call-2", _REFUSALS)):
        turn.driver.response(_ask(turn, call, options))


def _run_two(turn: Turn) -> None:
    requests = [_ask(turn, "call-1", _USUAL), _ask(turn, "call-2", _UNUSUAL)]
    for request in requests:
        turn.driver.response(request)


def _run_elicitation(turn: Turn) -> None:
    turn.need("elicitation.form")
    properties = {"name": {"type": "string", "title": "Your name"}, "kind": {"type": "colour"}}
    asked: Object = {"mode": "form", "message": "Who are you?"}
    turn.call(
        "elicitation/create", "elicitation", **asked, requestedSchema={"type": "object", "properties": properties}
    )


def _wait_for_cancel(turn: Turn) -> None:
    turn.update("agent_message_chunk", content={"type": "text", "text": f"{CANCEL_NOW}\n"})
    turn.driver.interrupt()
    if turn.driver.wait(lambda message: message.get("method") == "session/cancel") is None:
        raise StoppedError("the client did not cancel its turn on SIGINT")


def _run_cancel(turn: Turn) -> None:
    turn.update("tool_call", toolCallId="call-1", title="Work", status="in_progress")
    turn.driver.pause(QUIET)
    _wait_for_cancel(turn)
    turn.update("tool_call_update", toolCallId="call-1", status="completed")
    turn.update("agent_message_chunk", content={"type": "text", "text": "Stopping. "})
    turn.probe("alive")
    turn.end("cancelled")


def _run_cancel_permission(turn: Turn) -> None:
    request = _ask(turn, "call-1", _USUAL)
    if turn.driver.response(request, QUIET) is not None:
        raise StoppedError("the permission was answered before the turn could be cancelled")
    _wait_for_cancel(turn)
    turn.driver.response(request)
    turn.end("cancelled")


SCENARIOS: Final = (
    Scenario("permission", "Asks for a permission.", InTurn(_run_permission)),
    Scenario(
        "permission-unusual",
        "Asks for permissions with unusual ids, and with only a refusal.",
        InTurn(_run_unusual),
        passive=True,
    ),
    Scenario("permissions-at-once", "Asks for two permissions at once.", InTurn(_run_two)),
    Scenario("elicitation", "Asks the user for a name, in a form.", InTurn(_run_elicitation)),
    Scenario(
        "cancel",
        "Interrupts the client during a turn, and sends more updates.",
        InTurn(_run_cancel, ends_turn=True),
        alone=True,
    ),
    Scenario(
        "cancel-permission",
        "Interrupts the client during a permission request.",
        InTurn(_run_cancel_permission, ends_turn=True),
        alone=True,
        passive=True,
    ),
)
