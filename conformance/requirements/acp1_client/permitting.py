"""Permissions and cancels: what is answered, that it was offered, and what becomes of it when a turn is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import every, evidence, unanswered
from conformance.requirement import Requirement
from conformance.requirements.acp1 import params_are, prose, result_is, schema, session_of
from conformance.requirements.acp1_client.reading import SIDE, marked, session_ids
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, at
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_METHOD: Final = "session/request_permission"


def _asked(traffic: Traffic) -> list[Message]:
    return traffic.requests("server", _METHOD)


def _selected(traffic: Traffic) -> list[Message]:
    return [r for r in _asked(traffic) if r.answer is not None and at(r.answer.result, "outcome.outcome") == "selected"]


def _option(request: Message) -> str:
    assert request.answer
    chosen = at(request.answer.result, "outcome.optionId")
    offered = [as_object(option).get("optionId") for option in as_list(request.params.get("options"))]
    return "" if chosen in offered else f"the option {chosen!r} was chosen, of {offered}"


def _none_chosen() -> Verdict:
    return skipped("the client chose no option; perhaps an option of its own makes it answer without a person")


def _with_outcome(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "permission")
    answers = [request for request in requests if request.answer is not None]
    for request in answers:
        if not request.succeeded:
            return failed("a permission was answered with an error", *evidence(request))
    return PASS if answers else _unanswered(requests)


def _unanswered(requests: list[Message]) -> Verdict:
    if not requests:
        return not_tested("the client was asked for no permission")
    return skipped("the client answered no permission; perhaps an option of its own makes it answer without a person")


def _each_answered(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "permission")
    if not any(request.answer is not None for request in requests):
        return _unanswered(requests)
    for request in requests:
        if request.answer is None:
            return failed(unanswered(traffic, request, "one of two permissions"), request.index)
    return PASS


def _cancelled_needs_cancel(traffic: Traffic) -> Verdict:
    has_cancelled = any(message.method == "session/cancel" for message in traffic.sent(SIDE))
    answered = [request for request in _asked(traffic) if request.answer is not None]
    for request in answered:
        answer = request.answer
        if answer is None or at(answer.result, "outcome.outcome") != "cancelled":
            continue
        if not has_cancelled:
            return failed("a permission was answered with cancelled in a turn that was not", *evidence(request))
    return PASS if answered else _none_chosen()


def _pending_cancelled(traffic: Traffic) -> Verdict:
    """Each permission that waited when its turn was cancelled has the outcome cancelled."""
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
            return skipped("the connection ended before the turn that was cancelled")
        if request.answer is None:
            return failed(
                unanswered(traffic, request, "a permission that waited at the cancel"), request.index, cancel.index
            )
        if at(request.answer.result, "outcome.outcome") != "cancelled":
            return failed("a permission that waited at the cancel was not answered with cancelled", *evidence(request))
    return PASS if waited else skipped("no permission waited when a turn was cancelled")


def _known_cancel(traffic: Traffic) -> Verdict:
    cancels = traffic.notifications(SIDE, "session/cancel")
    for cancel in cancels:
        if session_of(cancel) not in session_ids(traffic):
            return failed(f"the cancel names {session_of(cancel)!r}, which is no session", cancel.index)
    return PASS if cancels else skipped("the client cancelled nothing")


def _no_request(traffic: Traffic) -> Verdict:
    for request in traffic.requests(SIDE, "session/cancel"):
        return failed("session/cancel has an id, which makes it a request", request.index)
    done = traffic.notifications(SIDE, "session/cancel")
    return PASS if done else skipped("the client cancelled nothing")


def _after_cancel(then: Callable[[Traffic], Verdict]) -> Callable[[Traffic], Verdict]:
    def judge(traffic: Traffic) -> Verdict:
        if not traffic.notifications(SIDE, "session/cancel"):
            return skipped("the client did not cancel its turn when it was interrupted")
        return then(traffic)

    return judge


def _takes_more(traffic: Traffic) -> Verdict:
    probes = marked(traffic, "alive")
    if any(probe.answer is not None for probe in probes):
        return PASS
    if traffic.marks("output-closed"):
        return failed("the client ended the connection before its turn had")
    return skipped("the client answers no unknown request, so that nothing shows whether it goes on")


_MUST = "The Client **MUST** respond to all pending `session/request_permission` requests with the `cancelled` outcome."

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-PERM-001",
        "mandatory",
        "The client's answer to a permission has the schema's shape.",
        schema("/$defs/RequestPermissionResponse/required", '["outcome"]'),
        result_is(_METHOD, "RequestPermissionResponse", SIDE),
        violation='{"outcome":"allow"}',
    ),
    Requirement(
        "ACP1-C-PERM-002",
        "advisory",
        "The option that is chosen was offered.",
        schema("/$defs/SelectedPermissionOutcome/properties/optionId", "The ID of the option the user selected."),
        every(_selected, _option, _none_chosen),
        violation='"optionId":"allow", and the options were `x` and `y`',
    ),
    Requirement(
        "ACP1-C-PERM-003",
        "mandatory",
        "Permissions that wait when a turn is cancelled are answered with cancelled.",
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
        "The client answers each of two permissions that wait at the same time.",
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
        "The client answers cancelled only where it cancelled the turn.",
        prose("tool-calls", "The user's decision, either: - `cancelled` - The [prompt turn was cancelled]"),
        _cancelled_needs_cancel,
        violation='"outcome":"cancelled" for a refusal',
    ),
    Requirement(
        "ACP1-C-CANCEL-001",
        "mandatory",
        "The client's session/cancel has the schema's shape.",
        schema("/$defs/CancelNotification/required", '["sessionId"]'),
        params_are("session/cancel", "CancelNotification", SIDE, notification=True),
        violation="{}",
    ),
    Requirement(
        "ACP1-C-CANCEL-002",
        "advisory",
        "The client cancels in sessions that were opened.",
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
        "The client takes updates after its cancel, until the turn has ended.",
        prose(
            "prompt-turn",
            "The Client **SHOULD** still accept tool call updates received after sending `session/cancel`.",
        ),
        _after_cancel(_takes_more),
        scenario="cancel",
        violation="a client that ends at the first update after its cancel",
    ),
    Requirement(
        "ACP1-C-ELICIT-001",
        "capability",
        "The client that advertises forms answers them in the schema's shape.",
        schema("/$defs/CreateElicitationResponse", '"type": "object"'),
        result_is("elicitation/create", "CreateElicitationResponse", SIDE),
        scenario="elicitation",
        applies="elicitation.form",
        violation='{"outcome":"decline"}',
    ),
)
