"""Permissions: how they are asked for, and what follows a refusal, an error and nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import every, evidence, marked, unanswered
from conformance.requirement import Requirement
from conformance.requirements.acp1 import TURN_ENDS, params_are, prose, schema, session_of
from conformance.requirements.acp1_agent.reading import updates
from conformance.traffic import Message, Traffic
from conformance.values import as_list, as_object, as_text, at
from conformance.verdict import PASS, Verdict, failed, skipped

_METHOD: Final = "session/request_permission"


def _asked(traffic: Traffic) -> list[Message]:
    return traffic.requests("server", _METHOD)


def _unasked() -> Verdict:
    return skipped("the agent asked for no permission; perhaps --tool-prompt makes it")


def _different_options(request: Message) -> str:
    ids = [as_object(option).get("optionId") for option in as_list(request.params.get("options"))]
    return f"two options have the same id: {ids}" if len(set(map(str, ids))) < len(ids) else ""


def _some_options(request: Message) -> str:
    return "" if as_list(request.params.get("options")) else "there are no options to choose from"


def _known_session(traffic: Traffic) -> Verdict:
    prompted = {session_of(m) for m in traffic.requests("client", "session/prompt")}
    for request in _asked(traffic):
        if session_of(request) not in prompted:
            return failed(
                f"permission is asked for in the session {session_of(request)!r}, which has no turn", request.index
            )
    return PASS if _asked(traffic) else _unasked()


def _did_not_complete(reason: str) -> Callable[[Traffic], Verdict]:
    """The tool calls for which permission was asked are not reported as completed."""

    def judge(traffic: Traffic) -> Verdict:
        refused = {_call_of(request): request for request in _asked(traffic)}
        for message, update in updates(traffic, "tool_call", "tool_call_update"):
            request = refused.get((session_of(message), as_text(update.get("toolCallId"))))
            if request is not None and message.order > request.order and update.get("status") == "completed":
                return failed(f"{reason}, and the tool call completed", *evidence(request), message.index)
        return PASS if refused else _unasked()

    return judge


def _turn_ends(traffic: Traffic) -> Verdict:
    if traffic.marks("not-always"):
        return skipped("what is permitted or refused for ever may outlive the run: allow it with --allow-always")
    if not _asked(traffic):
        return _unasked()
    for prompt in marked(traffic, "turn", "next"):
        if prompt.answer is None:
            return failed(unanswered(traffic, prompt, "the prompt of the turn"), prompt.index)
    return PASS


def _ends_at_once(traffic: Traffic) -> Verdict:
    return _turn_ends(traffic) if traffic.marks("at-once") else _one_at_a_time()


def _one_at_a_time() -> Verdict:
    return skipped("the agent did not ask for two permissions at once; perhaps --tool-prompt makes it")


def _each_answer_counts(traffic: Traffic) -> Verdict:
    if not traffic.marks("at-once"):
        return _one_at_a_time()
    refused = {_call_of(request): request for request in _asked(traffic) if _is_refused(request)}
    for message, update in updates(traffic, "tool_call", "tool_call_update"):
        request = refused.get((session_of(message), as_text(update.get("toolCallId"))))
        if request is not None and message.order > request.order and update.get("status") == "completed":
            return failed("one of two permissions was refused, and its tool call completed", *evidence(request))
    return PASS


def _call_of(request: Message) -> tuple[str, str]:
    return session_of(request), as_text(as_object(request.params.get("toolCall")).get("toolCallId"))


def _is_refused(request: Message) -> bool:
    chosen = at(request.answer.result, "outcome.optionId") if request.answer is not None else None
    options = [as_object(option) for option in as_list(request.params.get("options"))]
    return any(o.get("optionId") == chosen and as_text(o.get("kind")).startswith("reject") for o in options)


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-PERM-001",
        "mandatory",
        "A request for permission has the schema's shape.",
        schema("/$defs/RequestPermissionRequest/required", '["sessionId", "toolCall", "options"]'),
        params_are(_METHOD, "RequestPermissionRequest"),
        violation='{"sessionId":"s1","options":["yes","no"]}',
    ),
    Requirement(
        "ACP1-A-PERM-002",
        "advisory",
        "The options of a permission have different ids.",
        prose("tool-calls", "Unique identifier for this option"),
        every(_asked, _different_options, _unasked),
        violation='two options with "optionId":"allow"',
    ),
    Requirement(
        "ACP1-A-PERM-003",
        "advisory",
        "A permission has options to choose from.",
        schema(
            "/$defs/RequestPermissionRequest/properties/options",
            "Available permission options for the user to choose from.",
        ),
        every(_asked, _some_options, _unasked),
        violation='"options":[]',
    ),
    Requirement(
        "ACP1-A-PERM-004",
        "informational",
        "A permission is asked for in a session that has a turn.",
        schema("/$defs/RequestPermissionRequest/properties/sessionId", "The session ID for this request."),
        _known_session,
        violation='"sessionId":"other"',
    ),
    Requirement(
        "ACP1-A-PERM-005",
        "mandatory",
        "A turn whose permissions are refused ends, and so does the next.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-refused",
        violation="an agent that waits for another answer",
    ),
    Requirement(
        "ACP1-A-PERM-006",
        "advisory",
        "A tool call whose permission is refused does not run.",
        schema("/$defs/PermissionOptionKind/oneOf/2", "Reject this operation only this time."),
        _did_not_complete("the permission was refused"),
        scenario="permission-refused",
        violation='"status":"completed" after reject_once',
    ),
    Requirement(
        "ACP1-A-PERM-007",
        "mandatory",
        "A turn ends where permissions are refused for ever.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-refused-always",
        violation="an agent that asks again and again",
    ),
    Requirement(
        "ACP1-A-PERM-008",
        "mandatory",
        "A turn ends where permissions are given for ever.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-allowed-always",
        violation="an agent that waits for a second answer",
    ),
    Requirement(
        "ACP1-A-PERM-009",
        "informational",
        "An option that was not offered is no permission.",
        schema("/$defs/SelectedPermissionOutcome/properties/optionId", "The ID of the option the user selected."),
        _did_not_complete("an option was chosen that had not been offered"),
        scenario="permission-unknown-option",
        violation='"status":"completed" after an optionId that does not exist',
    ),
    Requirement(
        "ACP1-A-PERM-010",
        "mandatory",
        "A turn ends where an option is chosen that was not offered.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-unknown-option",
        violation="an agent that waits for another answer",
    ),
    Requirement(
        "ACP1-A-PERM-011",
        "informational",
        "An error is no permission.",
        schema("/$defs/RequestPermissionResponse/required", '["outcome"]'),
        _did_not_complete("the request was answered with an error"),
        scenario="permission-error",
        violation='"status":"completed" after an error',
    ),
    Requirement(
        "ACP1-A-PERM-012",
        "mandatory",
        "A turn ends where permissions are answered with errors.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-error",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-PERM-013",
        "mandatory",
        "Turns of two sessions end whose permissions wait at the same time and are answered in the other order.",
        TURN_ENDS,
        _ends_at_once,
        scenario="permissions-at-once",
        violation="an agent that waits for the answer of the last permission alone",
    ),
    Requirement(
        "ACP1-A-PERM-014",
        "advisory",
        "Of two permissions at once, each answer counts for its own.",
        schema("/$defs/PermissionOptionKind/oneOf/2", "Reject this operation only this time."),
        _each_answer_counts,
        scenario="permissions-at-once",
        violation="both tool calls run, and one was refused",
    ),
)
