"""How servers end after their input closes: idle, during a call, with a subscription, and before any message."""

from __future__ import annotations

from typing import Final

from conformance.driver import Driver, StoppedError
from conformance.judging import Requirement, answered
from conformance.suite import Scenario
from conformance.suites.jsonrpc import exits_after_input, no_processes_left
from conformance.suites.jsonrpc_rules import REPLY_QUOTE
from conformance.suites.mcp_stdio.client import (
    MODERN,
    Client,
    first_request,
    known_calls,
    open_any,
    prose,
    slow_call,
    start_seconds,
    when,
)
from conformance.suites.mcp_stdio.subscriptions import listen, wanted

_EXIT: Final = "Servers **SHOULD** exit promptly when their standard input is closed or reads return end-of-file."


def _exits(number: int, text: str, scenario: str, violation: str) -> Requirement:
    return Requirement(
        f"MCP-S-END-{number:03}",
        "advisory",
        text,
        prose("basic/transports/stdio", _EXIT, MODERN),
        when("input-closed", exits_after_input),
        scenario=scenario,
        violation=violation,
    )


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    _exits(
        1,
        "The server exits within three seconds after its input ends, plus its start-up time.",
        "end-of-input",
        "a server that keeps running after its client has exited",
    ),
    _exits(
        2,
        "The server exits just as soon if its input ends before any message.",
        "end-of-input-unopened",
        "a server that waits for a handshake for ever",
    ),
    _exits(
        3,
        "The server exits just as soon if its input ends during a call.",
        "end-of-input-in-a-call",
        "a server that still finishes a long call",
    ),
    _exits(
        4,
        "The server exits just as soon if its input ends while a subscription is open.",
        "end-of-input-subscribed",
        "a server whose watcher keeps it alive",
    ),
    Requirement(
        "MCP-S-END-005",
        "advisory",
        "The server answers a request that is directly followed by the end of its input.",
        prose("json-rpc", REPLY_QUOTE),
        answered("last", expect="result"),
        scenario="end-of-input-at-once",
        violation="`echo '{...initialize...}' | server` prints nothing",
    ),
    Requirement(
        "MCP-S-END-006",
        "informational",
        "The server leaves no processes behind.",
        prose("basic/transports/stdio", _EXIT, MODERN),
        no_processes_left,
        violation="a child of the server that outlives it",
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


_SECONDS: Final = 3.0
"""Plus the server's start-up time, so that a slow machine causes no failure."""
_PAUSE: Final = 0.1


def _close(driver: Driver) -> None:
    driver.close_input()
    driver.mark("closed-in-time", driver.wait_closed(_SECONDS + start_seconds(driver)))


def _run_idle(driver: Driver) -> None:
    open_any(driver)
    _close(driver)


def _run_unopened(driver: Driver) -> None:
    driver.pause(start_seconds(driver) + _PAUSE)
    _close(driver)


def _run_in_a_call(driver: Driver) -> None:
    client = open_any(driver)
    try:
        call = slow_call(client)
    except StoppedError:
        call = known_calls(driver)[0]
    client.ask("tools/call", **call)
    driver.pause(_PAUSE)
    _close(driver)


def _run_subscribed(driver: Driver) -> None:
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


def _run_at_once(driver: Driver) -> None:
    request = driver.request(*first_request(driver), label="last")
    driver.close_input()
    driver.response(request)


SCENARIOS: Final = (
    Scenario("end-of-input", "Closes the input while nothing happens.", _run_idle, alone=True),
    Scenario("end-of-input-unopened", "Closes the input before sending anything.", _run_unopened, alone=True),
    Scenario("end-of-input-in-a-call", "Closes the input during a call.", _run_in_a_call, alone=True),
    Scenario("end-of-input-subscribed", "Closes the input while a subscription is open.", _run_subscribed, alone=True),
    Scenario("end-of-input-at-once", "Closes the input right after a request.", _run_at_once),
)
