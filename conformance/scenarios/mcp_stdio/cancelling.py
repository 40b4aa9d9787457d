"""Progress and cancels: of a call that takes seconds, of what was answered long ago, and of what never was."""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import StoppedError
from conformance.scenarios.mcp_stdio.both import in_both
from conformance.scenarios.mcp_stdio.client import Client, known_calls, slow_call
from conformance.suite import Scenario

_INTO: Final = 0.3
"""Seconds after which a slow call is cancelled."""
_LATER: Final = 1.0
"""Seconds in which a call is answered when a later one of the same kind was."""


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
    _once_more(client, call)
    client.alive()


def _once_more(client: Client, call: dict[str, Any]) -> None:
    """Makes a call a second time and waits for it: when it has ended, the first one had its time too."""
    again = client.ask("tools/call", label="once-more", **call)
    if client.driver.response(again, client.driver.options.scenario_timeout / 2) is None:
        client.cancel(again)


def _stale(client: Client) -> None:
    driver = client.driver
    try:
        call = slow_call(client)
    except StoppedError:
        call = None  # then nothing is under way that the cancels could end
    under_way = call and client.ask("tools/call", label="under-way", **call)
    method, params = client.probe()
    request = driver.request(method, params)
    driver.response(request)
    driver.mark("stale-cancels")
    for stale in (request, request, 987_654, "never-sent"):
        client.cancel(stale)
    if call:
        _once_more(client, call)
        driver.response(under_way, _LATER)
    client.alive()


def _malformed(client: Client) -> None:
    client.driver.mark("malformed-cancels")
    for params in ({}, {"requestId": None}, {"requestId": {"a": 1}}):
        client.driver.notify("notifications/cancelled", params)
    client.driver.notify("notifications/cancelled")
    client.alive()


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *in_both("progress", "Calls a tool with a progress token, a string and a number.", _progress),
    *in_both("cancel", "Cancels a slow call, and makes it once more.", _cancel, alone=True),
    *in_both(
        "cancel-stale",
        "Cancels what was answered, twice, and what was never asked, while a slow call is under way, if one is known.",
        _stale,
    ),
    *in_both("cancel-malformed", "Sends cancels that name no request.", _malformed),
)
