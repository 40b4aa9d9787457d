"""What becomes of a turn whose permission is refused, answered with nonsense or with an error, or comes late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import WITHHELD, Answer, Driver, answers
from conformance.scenarios.acp1_agent.client import (
    CANCELLED,
    QUIET,
    begin,
    choose,
    finish_turn,
    open_session,
    selected,
    start_turn,
)
from conformance.suite import Scenario
from conformance.values import Object, as_object

_PERMISSION: Final = "session/request_permission"


def _answered(answer: Callable[[Object], Answer]) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        begin(driver)
        driver.answerers[_PERMISSION] = answer
        session = open_session(driver)
        for label in ("turn", "next"):
            request = start_turn(driver, session, driver.options.tool_prompt, label=label)
            finish_turn(driver, request)
        driver.pause(QUIET)

    return run


def _always(kind: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        if driver.options.allow_always:
            _answered(lambda params: choose(params, kind))(driver)
        else:
            driver.mark("not-always")

    return run


def _cancelling(*, late: bool) -> Callable[[Driver], None]:
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


def _at_once(driver: Driver) -> None:
    begin(driver)
    driver.answerers[_PERMISSION] = lambda _: WITHHELD
    sessions = [open_session(driver), open_session(driver)]
    prompts = [
        start_turn(driver, session, driver.options.tool_prompt, label=label)
        for session, label in zip(sessions, ("turn", "next"), strict=True)
    ]
    for _ in prompts:
        driver.wait(lambda m: m.get("method") == _PERMISSION or any(answers(m, prompt) for prompt in prompts))
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
    Scenario("permission-refused", "Refuses every permission once.", _answered(lambda p: choose(p, "reject_once"))),
    Scenario(
        "permission-unknown-option",
        "Chooses an option that was not offered.",
        _answered(lambda _: selected("no such option")),
    ),
    Scenario(
        "permission-error",
        "Answers permissions with an error.",
        _answered(lambda _: Answer.failing(-32603, "Internal error")),
    ),
    Scenario(
        "permissions-at-once",
        "Lets permissions of two sessions wait, allows the second one, and refuses the first after that.",
        _at_once,
    ),
    Scenario(
        "permission-cancelled", "Cancels the turn while a permission is asked for.", _cancelling(late=False), alone=True
    ),
    Scenario(
        "permission-late", "Cancels likewise, and answers the permission later.", _cancelling(late=True), alone=True
    ),
)
LASTING: Final = (
    Scenario("permission-refused-always", "Refuses for ever.", _always("reject_always"), alone=True),
    Scenario("permission-allowed-always", "Allows for ever.", _always("allow_always"), alone=True),
)
"""The last of all, because an agent may keep such an answer and ask for nothing any more in later scenarios."""
