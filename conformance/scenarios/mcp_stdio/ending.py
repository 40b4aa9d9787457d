"""How servers end: when their input does, idle, in a call, with a subscription, and before anything was said."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.scenarios.mcp_stdio.client import (
    MODERN,
    Client,
    first_request,
    known_calls,
    open_any,
    slow_call,
    start_seconds,
)
from conformance.scenarios.mcp_stdio.subscribing import listen, wanted
from conformance.suite import Scenario

_SECONDS: Final = 3.0
"""And as long as the server takes to start, so that a slow machine is not held against it."""
_PAUSE: Final = 0.1


def _close(driver: Driver) -> None:
    driver.close_input()
    driver.mark("closed-in-time", driver.wait_closed(_SECONDS + start_seconds(driver)))


def _idle(driver: Driver) -> None:
    open_any(driver)
    _close(driver)


def _unopened(driver: Driver) -> None:
    driver.pause(start_seconds(driver) + _PAUSE)
    _close(driver)


def _in_a_call(driver: Driver) -> None:
    client = open_any(driver)
    try:
        call = slow_call(client)
    except StoppedError:
        call = known_calls(driver)[0]
    client.ask("tools/call", **call)
    driver.pause(_PAUSE)
    _close(driver)


def _subscribed(driver: Driver) -> None:
    client = open_any(driver)
    _subscribe(client)
    _close(driver)


def _subscribe(client: Client) -> None:
    if client.version == MODERN:
        listen(client, wanted(client), "stream")
        return
    client.need("resources.subscribe")
    for resource in client.listed("resources/list")[:1]:
        client.asked("resources/subscribe", uri=resource.get("uri"))


def _at_once(driver: Driver) -> None:
    request = driver.request(*first_request(driver), label="last")
    driver.close_input()
    driver.response(request)


SCENARIOS: Final = (
    Scenario("end-of-input", "Ends the input while nothing happens.", _idle, alone=True),
    Scenario("end-of-input-unopened", "Ends the input before it sends anything.", _unopened, alone=True),
    Scenario("end-of-input-in-a-call", "Ends the input in the middle of a call.", _in_a_call, alone=True),
    Scenario("end-of-input-subscribed", "Ends the input while a subscription is open.", _subscribed, alone=True),
    Scenario("end-of-input-at-once", "Ends the input right after a request.", _at_once),
)
