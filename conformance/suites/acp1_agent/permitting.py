"""Permission requests: their shape, and turns after refusals, errors, invalid answers, and late answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import WITHHELD, Answer, Driver, is_response_to
from conformance.judging import (
    PASS,
    Requirement,
    Verdict,
    every,
    evidence,
    failed,
    marked_requests,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import TURN_ENDS, params_fit, prose, schema, session_of
from conformance.suites.acp1_agent.client import (
    CANCELLED,
    QUIET,
    begin,
    choose,
    finish_turn,
    open_session,
    selected,
    start_turn,
    updates,
)
from conformance.traffic import Message, Traffic
from conformance.values import Object, as_list, as_object, as_text, at

_METHOD: Final = "session/request_permission"


def _asked(traffic: Traffic) -> list[Message]:
    return traffic.requests("server", _METHOD)


def _unasked() -> Verdict:
    return skipped("the agent asked for no permission; try another --tool-prompt")


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
                f"permission is requested in the session {session_of(request)!r}, which has no turn", request.index
            )
    return PASS if _asked(traffic) else _unasked()


def _did_not_complete(reason: str) -> Callable[[Traffic], Verdict]:
    """Tool calls whose permission was requested are not reported as completed."""

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
        return skipped('an "always" answer may outlive the run; allow it with --allow-always')
    if not _asked(traffic):
        return _unasked()
    for prompt in marked_requests(traffic, "turn", "next"):
        if prompt.answer is None:
            return failed(unanswered_reason(traffic, prompt, "the prompt of the turn"), prompt.index)
    return PASS


def _ends_at_once(traffic: Traffic) -> Verdict:
    return _turn_ends(traffic) if traffic.marks("at-once") else _one_at_a_time()


def _one_at_a_time() -> Verdict:
    return skipped("the agent did not request two permissions at once; try another --tool-prompt")


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


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-PERM-001",
        "mandatory",
        "A permission request has the schema's shape.",
        schema("/$defs/RequestPermissionRequest/required", '["sessionId", "toolCall", "options"]'),
        params_fit(_METHOD, "RequestPermissionRequest"),
        violation='{"sessionId":"s1","options":["yes","no"]}',
    ),
    Requirement(
        "ACP1-A-PERM-002",
        "advisory",
        "Permission options have different ids.",
        prose("tool-calls", "Unique identifier for this option"),
        every(_asked, _different_options, _unasked),
        violation='two options with "optionId":"allow"',
    ),
    Requirement(
        "ACP1-A-PERM-003",
        "advisory",
        "A permission request has options to choose from.",
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
        "A permission request belongs to a session with a turn.",
        schema("/$defs/RequestPermissionRequest/properties/sessionId", "The session ID for this request."),
        _known_session,
        violation='"sessionId":"other"',
    ),
    Requirement(
        "ACP1-A-PERM-005",
        "mandatory",
        "A turn with refused permissions ends, and so does the next turn.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-refused",
        violation="an agent that waits for another answer",
    ),
    Requirement(
        "ACP1-A-PERM-006",
        "advisory",
        "A tool call with a refused permission does not run.",
        schema("/$defs/PermissionOptionKind/oneOf/2", "Reject this operation only this time."),
        _did_not_complete("the permission was refused"),
        scenario="permission-refused",
        violation='"status":"completed" after reject_once',
    ),
    Requirement(
        "ACP1-A-PERM-007",
        "mandatory",
        "A turn ends after permissions are refused permanently.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-refused-always",
        violation="an agent that asks again and again",
    ),
    Requirement(
        "ACP1-A-PERM-008",
        "mandatory",
        "A turn ends after permissions are granted permanently.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-allowed-always",
        violation="an agent that waits for a second answer",
    ),
    Requirement(
        "ACP1-A-PERM-009",
        "informational",
        "An option that was not offered grants no permission.",
        schema("/$defs/SelectedPermissionOutcome/properties/optionId", "The ID of the option the user selected."),
        _did_not_complete("the chosen option had not been offered"),
        scenario="permission-unknown-option",
        violation='"status":"completed" after an optionId that does not exist',
    ),
    Requirement(
        "ACP1-A-PERM-010",
        "mandatory",
        "A turn ends after an option is chosen that was not offered.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-unknown-option",
        violation="an agent that waits for another answer",
    ),
    Requirement(
        "ACP1-A-PERM-011",
        "informational",
        "An error as answer grants no permission.",
        schema("/$defs/RequestPermissionResponse/required", '["outcome"]'),
        _did_not_complete("the request was answered with an error"),
        scenario="permission-error",
        violation='"status":"completed" after an error',
    ),
    Requirement(
        "ACP1-A-PERM-012",
        "mandatory",
        "A turn ends after permission requests are answered with errors.",
        TURN_ENDS,
        _turn_ends,
        scenario="permission-error",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-PERM-013",
        "mandatory",
        "Turns of two sessions end when their pending permissions are answered in reverse order.",
        TURN_ENDS,
        _ends_at_once,
        scenario="permissions-at-once",
        violation="an agent that waits only for the answer to the last request",
    ),
    Requirement(
        "ACP1-A-PERM-014",
        "advisory",
        "Each answer to two parallel permission requests applies to its own request.",
        schema("/$defs/PermissionOptionKind/oneOf/2", "Reject this operation only this time."),
        _each_answer_counts,
        scenario="permissions-at-once",
        violation="both tool calls run, and one was refused",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_PERMISSION: Final = "session/request_permission"


def _run_answered(answer: Callable[[Object], Answer]) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        begin(driver)
        driver.answerers[_PERMISSION] = answer
        session = open_session(driver)
        for label in ("turn", "next"):
            request = start_turn(driver, session, driver.options.tool_prompt, label=label)
            finish_turn(driver, request)
        driver.pause(QUIET)

    return run


def _run_always(kind: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        if driver.options.allow_always:
            _run_answered(lambda params: choose(params, kind))(driver)
        else:
            driver.mark("not-always")

    return run


def _run_cancelling(*, late: bool) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        begin(driver)
        driver.answerers[_PERMISSION] = lambda _: WITHHELD
        session = open_session(driver)
        prompt = start_turn(driver, session, driver.options.tool_prompt)
        seconds = driver.options.scenario_timeout
        seen = driver.wait(lambda m: m.get("method") == _PERMISSION or m.get("id") == prompt, seconds)
        if seen is None or seen.get("method") != _PERMISSION:
            driver.mark("unasked")
            return
        driver.mark("cancelled", prompt)
        driver.notify("session/cancel", {"sessionId": session})
        if late:
            driver.pause(QUIET)
        driver.answer(seen, CANCELLED)
        finish_turn(driver, prompt)
        driver.pause(QUIET)
        driver.answerers[_PERMISSION] = lambda params: choose(params, "allow_once")
        after = start_turn(driver, session, driver.options.prompt, label="after")
        finish_turn(driver, after)

    return run


def _run_at_once(driver: Driver) -> None:
    begin(driver)
    driver.answerers[_PERMISSION] = lambda _: WITHHELD
    sessions = [open_session(driver), open_session(driver)]
    prompts = [
        start_turn(driver, session, driver.options.tool_prompt, label=label)
        for session, label in zip(sessions, ("turn", "next"), strict=True)
    ]
    for _ in prompts:
        driver.wait(lambda m: m.get("method") == _PERMISSION or any(is_response_to(m, prompt) for prompt in prompts))
    waiting = [message for message in driver.received if message.get("method") == _PERMISSION]
    if len(waiting) >= len(prompts):
        driver.mark("at-once")
    driver.answerers[_PERMISSION] = lambda params: _allow_in(sessions[1], params)
    for request in reversed(waiting):
        driver.answer(request, _allow_in(sessions[1], as_object(request.get("params"))))
    for prompt in prompts:
        finish_turn(driver, prompt)
    driver.pause(QUIET)


def _allow_in(session: str, params: Object) -> Answer:
    return choose(params, "allow_once" if params.get("sessionId") == session else "reject_once")


SCENARIOS: Final = (
    Scenario("permission-refused", "Refuses every permission once.", _run_answered(lambda p: choose(p, "reject_once"))),
    Scenario(
        "permission-unknown-option",
        "Chooses an option that was not offered.",
        _run_answered(lambda _: selected("no such option")),
    ),
    Scenario(
        "permission-error",
        "Answers permissions with an error.",
        _run_answered(lambda _: Answer.failing(-32603, "Internal error")),
    ),
    Scenario(
        "permissions-at-once",
        "Keeps permissions of two sessions pending, allows the second, then refuses the first.",
        _run_at_once,
    ),
    Scenario(
        "permission-cancelled",
        "Cancels the turn during a permission request.",
        _run_cancelling(late=False),
        alone=True,
    ),
    Scenario(
        "permission-late",
        "Cancels during a permission request, and answers it later.",
        _run_cancelling(late=True),
        alone=True,
    ),
)
LASTING: Final = (
    Scenario("permission-refused-always", "Refuses permissions permanently.", _run_always("reject_always"), alone=True),
    Scenario("permission-allowed-always", "Allows permissions permanently.", _run_always("allow_always"), alone=True),
)
"""Runs last, because an agent may remember the answer and stop asking in later scenarios."""
