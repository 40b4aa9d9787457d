"""What becomes of a turn whose permission is refused, answered with nonsense or with an error, or comes late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.driver import WITHHELD, Answer, Driver
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
from conformance.values import Object

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
