"""Progress and cancels: of a call that takes seconds, of what was answered long ago, and of what never was."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import StoppedError
from conformance.scenarios.mcp_stdio.both import in_both
from conformance.scenarios.mcp_stdio.client import Client, known_calls, slow_call
from conformance.suite import Scenario

_INTO: Final = 0.3
"""Seconds after which a slow call is cancelled."""
_AFTER: Final = 2.0
"""Seconds in which a cancelled call must not be answered."""


def _with_token(call: dict[str, Any], token: object) -> dict[str, Any]:
    return {**call, "_meta": {"progressToken": token}}


def _progress(client: Client) -> None:
    client.need("tools")
    try:
        call = slow_call(client)
    except StoppedError:
        call = known_calls(client.driver)[0]
    for token in ("rewindow-conformance", 7):
        request = client.ask("tools/call", label="progress", **_with_token(call, token))
        client.driver.response(request, client.driver.options.scenario_timeout)
    client.driver.pause(_INTO)


def _cancel(client: Client) -> None:
    client.need("tools")
    call = slow_call(client)
    driver = client.driver
    request = client.ask("tools/call", **_with_token(call, "cancelled"))
    if driver.response(request, _INTO) is not None:
        driver.mark("race-missed")
    driver.mark("cancelled", request)
    client.cancel(request)
    driver.response(request, _AFTER)
    client.alive()


def _stale(client: Client) -> None:
    driver = client.driver
    method, params = client.probe()
    request = driver.request(method, params)
    driver.response(request)
    driver.mark("stale-cancels")
    for stale in (request, request, 987_654, "never-sent"):
        client.cancel(stale)
    client.alive()


def _malformed(client: Client) -> None:
    client.driver.mark("malformed-cancels")
    for params in ({}, {"requestId": None}, {"requestId": {"a": 1}}):
        client.driver.notify("notifications/cancelled", params)
    client.driver.notify("notifications/cancelled")
    client.alive()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("progress", "Calls a tool with a progress token, a string and a number.", _progress),
    *in_both("cancel", "Cancels a slow call.", _cancel, alone=True),
    *in_both("cancel-stale", "Cancels what was answered, twice, and what was never asked.", _stale),
    *in_both("cancel-malformed", "Sends cancels that name no request.", _malformed),
)
