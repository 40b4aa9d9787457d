"""Cancels: in the middle of a turn, with its prompt, twice, stale, of a request. Each alone, because moments decide."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import WITHHELD, Answer, Driver, answers, line, request_message
from conformance.scenarios.acp1_agent.client import (
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
from conformance.suite import Scenario
from conformance.values import at

_INTO: Final = 0.2
"""Seconds by which a turn has shown something and goes on."""


def _begin_slow(driver: Driver) -> tuple[str, Any]:
    begin(driver)
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.slow_prompt)
    driver.wait(is_working, 2)
    driver.pause(_INTO)
    return session, prompt


def _settle(driver: Driver, session: str, prompt: Any) -> None:
    """Waits for the cancelled prompt, for whatever follows, and runs one more turn that nobody cancels."""
    response = finish_turn(driver, prompt)
    if at(response, "result.stopReason") not in (None, "cancelled"):
        driver.mark("race-missed")
    driver.pause(QUIET)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _cancel(driver: Driver) -> None:
    session, prompt = _begin_slow(driver)
    driver.mark("cancelled", prompt)
    driver.notify("session/cancel", {"sessionId": session})
    _settle(driver, session, prompt)


def _twice(driver: Driver) -> None:
    session, prompt = _begin_slow(driver)
    driver.mark("cancelled", prompt)
    for _ in range(2):
        driver.notify("session/cancel", {"sessionId": session})
    _settle(driver, session, prompt)


def _at_once(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    prompt = driver.new_id()
    params = prompt_params(session, text_block(driver.options.slow_prompt))
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
    driver.mark("cancelled", prompt)
    driver.raw(line(request_message(prompt, "session/prompt", params)) + line(cancel))
    _settle(driver, session, prompt)


def _stale(driver: Driver) -> None:
    begin(driver)
    session = open_session(driver)
    driver.notify("session/cancel", {"sessionId": session})
    turn(driver, session, driver.options.prompt)
    driver.notify("session/cancel", {"sessionId": session})
    driver.notify("session/cancel", {"sessionId": "rewindow-conformance-no-such-session"})
    driver.pause(0.2)
    after = start_turn(driver, session, driver.options.prompt, label="after")
    finish_turn(driver, after)


def _other(driver: Driver) -> None:
    begin(driver)
    first, second = open_session(driver), open_session(driver)
    prompt = start_turn(driver, first, driver.options.prompt, label="after")
    driver.notify("session/cancel", {"sessionId": second})
    finish_turn(driver, prompt)


def _in_terminal(driver: Driver) -> None:
    begin(driver)
    driver.answerers |= {
        "terminal/wait_for_exit": lambda _: WITHHELD,
        "terminal/output": lambda _: Answer(result={"output": "", "truncated": False}),
    }
    session = open_session(driver)
    prompt = start_turn(driver, session, driver.options.tool_prompt)
    waits = ("terminal/wait_for_exit", "terminal/output")
    seen = driver.wait(lambda m: m.get("method") in waits or answers(m, prompt), driver.options.scenario_timeout)
    if seen is None or "method" not in seen:
        driver.mark("no-terminal")
        return
    driver.mark("cancelled", prompt)
    driver.notify("session/cancel", {"sessionId": session})
    # As a client does, tells the end of the command once it is killed, or a moment later if it is not.
    driver.wait(lambda m: m.get("method") in ("terminal/kill", "terminal/release"), QUIET)
    ended = Answer(result={"exitCode": None, "signal": "SIGKILL"})
    driver.answerers["terminal/wait_for_exit"] = lambda _: ended
    for message in driver.received:
        if message.get("method") == "terminal/wait_for_exit":
            driver.answer(message, ended)
    finish_turn(driver, prompt)
    driver.pause(QUIET)


def _request(driver: Driver) -> None:
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
    Scenario("cancel", "Cancels a slow turn.", _cancel, alone=True, tries=3),
    Scenario("cancel-twice", "Cancels a slow turn twice in a row.", _twice, alone=True, tries=3),
    Scenario("cancel-at-once", "Cancels a slow turn in the same write as its prompt.", _at_once, alone=True, tries=3),
    Scenario("cancel-stale", "Cancels while nothing runs, and prompts then.", _stale, alone=True),
    Scenario("cancel-other-session", "Cancels another session than the one in which a turn runs.", _other, alone=True),
    Scenario("cancel-in-terminal", "Cancels while a terminal's command runs.", _in_terminal, alone=True),
    Scenario("cancel-request", "Cancels the request of a slow turn by `$/cancel_request`.", _request, alone=True),
)
