"""Cancels: what a cancelled prompt is answered with, that stale cancels hit nothing, and that the session goes on."""

from __future__ import annotations

from typing import Final

from conformance.judging import answered, evidence, marked, unanswered
from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import TURN_ENDS, prose, schema
from conformance.traffic import Message, Traffic
from conformance.values import as_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_CERTAIN: Final = 0.5
"""A turn that is cancelled before this part of an undisturbed one is over has not ended by itself."""
_SOON: Final = 100
"""Milliseconds in which an undisturbed turn may be over before the agent has read a cancel that is there already."""
_REQUEST_CANCELLED: Final = -32800


def _cancelled(traffic: Traffic) -> Verdict:
    for prompt in marked(traffic, "cancelled"):
        if prompt.answer is None:
            return failed(unanswered(traffic, prompt, "the cancelled prompt"), prompt.index)
        if not prompt.succeeded:
            return failed(
                f"the cancelled prompt was answered with an error: {prompt.answer.error.get('message')}",
                *evidence(prompt),
            )
        reason = prompt.answer.result.get("stopReason")
        if reason == "cancelled":
            return PASS
        if _could_have_ended(traffic, prompt):
            return skipped("not exercised: the turn may have ended by itself; --slow-prompt makes it longer")
        return failed(f"the cancelled prompt was answered {reason!r}", *evidence(prompt))
    if traffic.marks("unasked"):
        return skipped("the agent asked for no permission; perhaps --tool-prompt makes it")
    if traffic.marks("no-terminal"):
        return skipped("the agent used no terminal; perhaps --tool-prompt makes it")
    return not_tested("no turn was cancelled")


def _could_have_ended(traffic: Traffic, prompt: Message) -> bool:
    """Whether the turn may have ended by itself when the cancel was sent. Where nothing tells, it may."""
    asked = [*traffic.notifications("client", "session/cancel"), *traffic.requests("client", "session/close")]
    cancel = next((message for message in asked if message.order > prompt.order), None)
    if cancel is None:
        return True
    for request in traffic.requests("server", "session/request_permission", "terminal/wait_for_exit"):
        if request.order < cancel.order and (request.answer is None or request.answer.order > cancel.order):
            return False  # it waited for a permission that nobody had given, or for a command that ran
    undisturbed = as_object(traffic.transcript.facts.get("calibration")).get("slow_turn_ms")
    if not isinstance(undisturbed, int | float) or undisturbed < _SOON:
        return True
    return cancel.ms - prompt.ms >= _CERTAIN * undisturbed


def _goes_on(label: str) -> Judge:
    judge = answered(label, expect="result")

    def goes_on(traffic: Traffic) -> Verdict:
        if traffic.marks("unasked"):
            return skipped("the agent asked for no permission; perhaps --tool-prompt makes it")
        return judge(traffic)

    return goes_on


def _not_hit(traffic: Traffic) -> Verdict:
    for prompt in marked(traffic, "after"):
        if prompt.answer is None:
            return failed(unanswered(traffic, prompt, "the prompt"), prompt.index)
        if prompt.answer.result.get("stopReason") == "cancelled":
            return failed("a turn that was not the one cancelled ended as cancelled", *evidence(prompt))
        return PASS
    return not_tested("no turn was run after the cancel")


def _request(traffic: Traffic) -> Verdict:
    for prompt in marked(traffic, "request-cancelled"):
        if prompt.answer is None:
            return failed(unanswered(traffic, prompt, "the prompt"), prompt.index)
        code = prompt.answer.error.get("code")
        if prompt.succeeded or code == _REQUEST_CANCELLED:
            return PASS
        return failed(
            f"the prompt was answered with the code {code}, not -32800 and not with a result", *evidence(prompt)
        )
    return not_tested("no request was cancelled")


_MUST: Final = (
    "the Agent **MUST** respond to the original `session/prompt` request with the `cancelled` [stop "
    "reason](#stop-reasons)."
)
_CATCH: Final = "Agents **MUST** catch these errors and return the semantically meaningful `cancelled` stop reason"
_RETURNED: Final = "This stop reason MUST be returned when the client sends a `session/cancel` notification"
_ANOTHER: Final = (
    "Once a prompt turn completes, the Client may send another `session/prompt` to continue the conversation"
)
_BY_CLIENT: Final = "The turn was cancelled by the client via `session/cancel`."
_CLOSE: Final = "The Agent **MUST** cancel any ongoing work for that session as if [`session/cancel`]"

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-CANCEL-001",
        "mandatory",
        "A prompt that is cancelled in the middle of its turn is answered with the stop reason cancelled.",
        prose("prompt-turn", _MUST),
        _cancelled,
        scenario="cancel",
        violation='{"stopReason":"end_turn"}, or an error',
    ),
    Requirement(
        "ACP1-A-CANCEL-002",
        "mandatory",
        "A session takes prompts after a cancel.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="cancel",
        violation='"code":-32603 for the next prompt',
    ),
    Requirement(
        "ACP1-A-CANCEL-003",
        "mandatory",
        "A prompt that is cancelled twice is answered once, with the stop reason cancelled.",
        schema("/$defs/StopReason/oneOf/4", _RETURNED),
        _cancelled,
        scenario="cancel-twice",
        violation="an error for the second cancel",
    ),
    Requirement(
        "ACP1-A-CANCEL-004",
        "advisory",
        "The second of two cancels does not hit the next turn.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _not_hit,
        scenario="cancel-twice",
        violation='{"stopReason":"cancelled"} for the prompt after',
    ),
    Requirement(
        "ACP1-A-CANCEL-005",
        "mandatory",
        "A cancel that comes in the same write as its prompt is not lost.",
        schema("/$defs/StopReason/oneOf/4", _RETURNED),
        _cancelled,
        scenario="cancel-at-once",
        violation="the whole slow turn",
    ),
    Requirement(
        "ACP1-A-CANCEL-006",
        "advisory",
        "A cancel while nothing runs does not hit the next turn.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _not_hit,
        scenario="cancel-stale",
        violation='{"stopReason":"cancelled"} for a prompt sent later',
    ),
    Requirement(
        "ACP1-A-CANCEL-007",
        "advisory",
        "A cancel of one session does not hit the turn of another.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _not_hit,
        scenario="cancel-other-session",
        violation='{"stopReason":"cancelled"} in the other session',
    ),
    Requirement(
        "ACP1-A-CANCEL-008",
        "mandatory",
        "A prompt that is cancelled while a permission is asked for is answered with the stop reason cancelled.",
        prose("prompt-turn", _CATCH),
        _cancelled,
        scenario="permission-cancelled",
        violation='{"stopReason":"end_turn"} after a refused tool call',
    ),
    Requirement(
        "ACP1-A-CANCEL-009",
        "mandatory",
        "A prompt is answered as cancelled where the client answers the permission late.",
        prose("prompt-turn", _CATCH),
        _cancelled,
        scenario="permission-late",
        violation="an error, or nothing",
    ),
    Requirement(
        "ACP1-A-CANCEL-010",
        "mandatory",
        "A session takes prompts after a cancel while a permission was asked for.",
        TURN_ENDS,
        _goes_on("after"),
        scenario="permission-late",
        violation='"code":-32603 for the next prompt',
    ),
    Requirement(
        "ACP1-A-CANCEL-013",
        "mandatory",
        "A prompt that is cancelled while a terminal's command runs is answered with the stop reason cancelled.",
        prose("prompt-turn", _MUST),
        _cancelled,
        scenario="cancel-in-terminal",
        violation='{"stopReason":"end_turn"}, or an error because the command was killed',
    ),
    Requirement(
        "ACP1-A-CANCEL-011",
        "mandatory",
        "A prompt whose request is cancelled by `$/cancel_request` is answered with a result, or with -32800.",
        prose("cancellation", "**MUST** send one of these responses for the original request:"),
        _request,
        scenario="cancel-request",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-A-CANCEL-012",
        "mandatory",
        "A session takes prompts after its request was cancelled.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="cancel-request",
        violation='"code":-32603 for the next prompt',
    ),
    Requirement(
        "ACP1-A-CLOSE-002",
        "capability",
        "The prompt of a session that is closed is answered with the stop reason cancelled.",
        prose("session-setup", _CLOSE),
        _cancelled,
        scenario="close",
        applies="sessionCapabilities.close",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-CLOSE-003",
        "capability",
        "The agent answers session/close in the middle of a turn with success.",
        prose(
            "session-setup",
            (
                "The Agent **MUST** cancel any ongoing work for that session as if [`session/cancel`]"
                "(/protocol/v1/prompt-turn#cancellation) had been called, then free the resources associated with "
                "the session."
            ),
        ),
        answered("close", expect="result"),
        scenario="close",
        applies="sessionCapabilities.close",
        violation='"code":-32600 while a turn runs',
    ),
)
