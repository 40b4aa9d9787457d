"""Cancelling turns and requests, and closing a session during a turn.

Scenarios run alone, because timing matters. A verdict depends on whether the turn may have ended before the cancel.
"""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import WITHHELD, Answer, Driver, encode_line, is_response_to, request_message
from conformance.judging import (
    PASS,
    Judge,
    Requirement,
    Verdict,
    answered,
    evidence,
    failed,
    marked_requests,
    not_tested,
    skipped,
    unanswered_reason,
)
from conformance.suite import Scenario
from conformance.suites.acp1 import TURN_ENDS, prose, schema
from conformance.suites.acp1_agent.client import (
    QUIET,
    begin,
    finish_turn,
    is_working,
    open_session,
    prompt_params,
    start_turn,
    text_block,
    turn,
)
from conformance.traffic import Message, Traffic
from conformance.values import as_object, at

_UNFINISHED_PART: Final = 0.5
"""A turn that is cancelled within this fraction of its normal duration has not ended normally."""
_INSTANT_MS: Final = 100
"""Milliseconds. A shorter turn may end before the agent reads a pending cancel."""
_REQUEST_CANCELLED: Final = -32800


def _cancelled(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "cancelled"):
        if prompt.answer is None:
            return failed(unanswered_reason(traffic, prompt, "the cancelled prompt"), prompt.index)
        if not prompt.succeeded:
            return failed(
                f"the cancelled prompt was answered with an error: {prompt.answer.error.get('message')}",
                *evidence(prompt),
            )
        reason = prompt.answer.result.get("stopReason")
        if reason == "cancelled":
            return PASS
        if _could_have_ended(traffic, prompt):
            return skipped("not exercised: the turn may have ended normally; a longer --slow-prompt avoids this")
        return failed(f"the cancelled prompt ended with the stop reason {reason!r}", *evidence(prompt))
    if traffic.marks("unasked"):
        return skipped("the agent asked for no permission; try another --tool-prompt")
    if traffic.marks("no-terminal"):
        return skipped("the agent used no terminal; try another --tool-prompt")
    return not_tested("no turn was cancelled")


def _could_have_ended(traffic: Traffic, prompt: Message) -> bool:
    """Whether the turn may have ended normally when the cancel was sent. True if unknown."""
    asked = [*traffic.notifications("client", "session/cancel"), *traffic.requests("client", "session/close")]
    cancel = next((message for message in asked if message.order > prompt.order), None)
    if cancel is None:
        return True
    for request in traffic.requests("server", "session/request_permission", "terminal/wait_for_exit"):
        if request.order < cancel.order and (request.answer is None or request.answer.order > cancel.order):
            return False  # it waited for an unanswered permission, or for a running command
    undisturbed = as_object(traffic.transcript.facts.get("calibration")).get("slow_turn_ms")
    if not isinstance(undisturbed, int | float) or undisturbed < _INSTANT_MS:
        return True
    return cancel.ms - prompt.ms >= _UNFINISHED_PART * undisturbed


def _accepts_next_prompt(label: str) -> Judge:
    judge = answered(label, expect="result")

    def goes_on(traffic: Traffic) -> Verdict:
        if traffic.marks("unasked"):
            return skipped("the agent asked for no permission; try another --tool-prompt")
        return judge(traffic)

    return goes_on


def _next_turn_unaffected(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "after"):
        if prompt.answer is None:
            return failed(unanswered_reason(traffic, prompt, "the prompt"), prompt.index)
        if prompt.answer.result.get("stopReason") == "cancelled":
            return failed("the cancel ended another turn", *evidence(prompt))
        return PASS
    return not_tested("no turn was run after the cancel")


def _request_cancelled(traffic: Traffic) -> Verdict:
    for prompt in marked_requests(traffic, "request-cancelled"):
        if prompt.answer is None:
            return failed(unanswered_reason(traffic, prompt, "the prompt"), prompt.index)
        code = prompt.answer.error.get("code")
        if prompt.succeeded or code == _REQUEST_CANCELLED:
            return PASS
        return failed(f"the prompt was answered with the code {code}, not with -32800 or a result", *evidence(prompt))
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


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-A-CANCEL-001",
        "mandatory",
        "A prompt that is cancelled during its turn ends with the stop reason cancelled.",
        prose("prompt-turn", _MUST),
        _cancelled,
        scenario="cancel",
        violation='{"stopReason":"end_turn"}, or an error',
    ),
    Requirement(
        "ACP1-A-CANCEL-002",
        "mandatory",
        "A session accepts prompts after a cancel.",
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
        "The second of two cancels does not affect the next turn.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _next_turn_unaffected,
        scenario="cancel-twice",
        violation='{"stopReason":"cancelled"} for the prompt after',
    ),
    Requirement(
        "ACP1-A-CANCEL-005",
        "mandatory",
        "A cancel in the same write as its prompt is not lost.",
        schema("/$defs/StopReason/oneOf/4", _RETURNED),
        _cancelled,
        scenario="cancel-at-once",
        violation="the slow turn runs to its end",
    ),
    Requirement(
        "ACP1-A-CANCEL-006",
        "advisory",
        "A cancel without a running turn does not affect the next turn.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _next_turn_unaffected,
        scenario="cancel-stale",
        violation='{"stopReason":"cancelled"} for a prompt sent later',
    ),
    Requirement(
        "ACP1-A-CANCEL-007",
        "advisory",
        "A cancel in one session does not affect a turn in another session.",
        schema("/$defs/StopReason/oneOf/4", _BY_CLIENT),
        _next_turn_unaffected,
        scenario="cancel-other-session",
        violation='{"stopReason":"cancelled"} in the other session',
    ),
    Requirement(
        "ACP1-A-CANCEL-008",
        "mandatory",
        "A prompt that is cancelled during a permission request ends with the stop reason cancelled.",
        prose("prompt-turn", _CATCH),
        _cancelled,
        scenario="permission-cancelled",
        violation='{"stopReason":"end_turn"} after a refused tool call',
    ),
    Requirement(
        "ACP1-A-CANCEL-009",
        "mandatory",
        "A cancelled prompt ends with the stop reason cancelled even if the client answers the permission late.",
        prose("prompt-turn", _CATCH),
        _cancelled,
        scenario="permission-late",
        violation="an error, or no answer",
    ),
    Requirement(
        "ACP1-A-CANCEL-010",
        "mandatory",
        "A session accepts prompts after a cancel during a permission request.",
        TURN_ENDS,
        _accepts_next_prompt("after"),
        scenario="permission-late",
        violation='"code":-32603 for the next prompt',
    ),
    Requirement(
        "ACP1-A-CANCEL-013",
        "mandatory",
        "A prompt that is cancelled while a terminal command runs ends with the stop reason cancelled.",
        prose("prompt-turn", _MUST),
        _cancelled,
        scenario="cancel-in-terminal",
        violation='{"stopReason":"end_turn"}, or an error because the command was killed',
    ),
    Requirement(
        "ACP1-A-CANCEL-011",
        "mandatory",
        "A prompt that is cancelled by `$/cancel_request` is answered with a result or with -32800.",
        prose("cancellation", "**MUST** send one of these responses for the original request:"),
        _request_cancelled,
        scenario="cancel-request",
        violation='"code":-32603',
    ),
    Requirement(
        "ACP1-A-CANCEL-012",
        "mandatory",
        "A session accepts prompts after a cancelled request.",
        TURN_ENDS,
        answered("after", expect="result"),
        scenario="cancel-request",
        violation='"code":-32603 for the next prompt',
    ),
    Requirement(
        "ACP1-A-CLOSE-002",
        "capability",
        "Closing a session ends its prompt with the stop reason cancelled.",
        prose("session-setup", _CLOSE),
        _cancelled,
        scenario="close",
        applies="sessionCapabilities.close",
        violation="a prompt that is never answered",
    ),
    Requirement(
        "ACP1-A-CLOSE-003",
        "capability",
        "The agent answers session/close during a turn with success.",
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


# --- scenarios --------------------------------------------------------------------------------------------------------


_ACTIVE_SECONDS: Final = 0.2
"""Seconds after which a turn shows activity and still runs."""


def _begin_slow(driver: Driver) -> tuple[str, Any]:
    begin(driver)
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    driver.pause(_ACTIVE_SECONDS)
    return session, prompt


def _settle(driver: Driver, session: str, prompt: Any) -> None:
    """Wait for the cancelled prompt and late updates, then run one more turn."""
    response = finish_turn(driver, prompt)
    if at(response, "result.stopReason") not in (None, "cancelled"):
        driver.mark("race-missed")
    driver.pause(QUIET)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _run_cancel(driver: Driver) -> None:
    session, prompt = _begin_slow(driver)
    driver.mark("cancelled", prompt)
    driver.notify("session/cancel", {"sessionId": session})
    _settle(driver, session, prompt)


def _run_twice(driver: Driver) -> None:
    session, prompt = _begin_slow(driver)
    driver.mark("cancelled", prompt)
    for _ in range(2):
        driver.notify("session/cancel", {"sessionId": session})
    _settle(driver, session, prompt)


def _run_at_once(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    prompt = driver.new_id()
    params = prompt_params(session, text_block(driver.options.slow_prompt))
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
    driver.mark("cancelled", prompt)
    driver.send_bytes(encode_line(request_message(prompt, "session/prompt", params)) + encode_line(cancel))
    _settle(driver, session, prompt)


def _run_stale(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    driver.notify("session/cancel", {"sessionId": session})
    turn(driver, session, driver.options.prompt)
    driver.notify("session/cancel", {"sessionId": session})
    driver.notify("session/cancel", {"sessionId": "rewindow-conformance-no-such-session"})
    driver.pause(0.2)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _run_other(driver: Driver) -> None:
    begin(driver)
    first, second = open_session(driver), open_session(driver)
    prompt = start_turn(driver, first, driver.options.prompt, label="after")
    driver.notify("session/cancel", {"sessionId": second})
    finish_turn(driver, prompt)


def _run_in_terminal(driver: Driver) -> None:
    begin(driver)
    driver.answerers |= {
        "terminal/wait_for_exit": lambda _: WITHHELD,
        "terminal/output": lambda _: Answer(result={"output": "", "truncated": False}),
    }
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.tool_prompt)
    waits = ("terminal/wait_for_exit", "terminal/output")
    seen = driver.wait(lambda m: m.get("method") in waits or is_response_to(m, prompt), driver.options.scenario_timeout)
    if seen is None or "method" not in seen:
        driver.mark("no-terminal")
        return
    driver.mark("cancelled", prompt)
    driver.notify("session/cancel", {"sessionId": session})
    # Report the end of the command as a client does: after it is killed, or a moment later.
    driver.wait(lambda m: m.get("method") in ("terminal/kill", "terminal/release"), QUIET)
    ended = Answer(result={"exitCode": None, "signal": "SIGKILL"})
    driver.answerers["terminal/wait_for_exit"] = lambda _: ended
    for message in driver.received:
        if message.get("method") == "terminal/wait_for_exit":
            driver.answer(message, ended)
    finish_turn(driver, prompt)
    driver.pause(QUIET)


def _run_request(driver: Driver) -> None:
    session, prompt = _begin_slow(driver)
    driver.mark("request-cancelled", prompt)
    driver.notify("$/cancel_request", {"requestId": prompt})
    driver.response(prompt, driver.options.timeout)
    driver.notify("session/cancel", {"sessionId": session})
    finish_turn(driver, prompt)
    driver.notify("$/cancel_request", {"requestId": "rewindow-conformance-no-such-request"})
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


SCENARIOS: Final = (
    Scenario("cancel", "Cancels a slow turn.", _run_cancel, alone=True, tries=3),
    Scenario("cancel-twice", "Cancels a slow turn twice in a row.", _run_twice, alone=True, tries=3),
    Scenario("cancel-at-once", "Sends a slow prompt and its cancel in one write.", _run_at_once, alone=True, tries=3),
    Scenario("cancel-stale", "Cancels without a running turn, then prompts.", _run_stale, alone=True),
    Scenario(
        "cancel-other-session", "Cancels a session other than the one with the running turn.", _run_other, alone=True
    ),
    Scenario("cancel-in-terminal", "Cancels while a terminal command runs.", _run_in_terminal, alone=True),
    Scenario("cancel-request", "Cancels the request of a slow turn by `$/cancel_request`.", _run_request, alone=True),
)
