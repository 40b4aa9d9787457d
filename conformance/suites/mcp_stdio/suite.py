"""The suite for MCP servers on stdio: its areas, its opening, when a server can be judged, and its calibration.

The opening finds the version that the server supports, and tools that may be called.
"""

from __future__ import annotations

from typing import Any, Final

from conformance.driver import Driver, StoppedError
from conformance.judging import Requirement, marked_requests, no_opening_reason
from conformance.suite import Scenario, Suite
from conformance.suites.mcp_stdio import cancelling, ending, listing, messages, offers, subscriptions, tools, versions
from conformance.suites.mcp_stdio.client import HANDSHAKE, MODERN, Client, candidates, capability, open_as
from conformance.traffic import Traffic
from conformance.values import at


def _run_opening(driver: Driver) -> None:
    client = _open_first(driver)
    if not client.offers("tools"):
        return
    for call in candidates(driver, client.listed("tools/list")):
        response = client.asked("tools/call", label="call", **call)
        if response is not None and "result" in response and at(response, "result.isError") is not True:
            return


def _open_first(driver: Driver) -> Client:
    """Try the handshake first, because servers that support only that may not survive anything else.

    A server with only the later version answers with an error. A silent server is dead, and gets no second wait.
    """
    try:
        return open_as(driver, HANDSHAKE)
    except StoppedError as refused:
        if not driver.received:
            raise
        try:
            return open_as(driver, MODERN)
        except StoppedError:
            raise refused from None


OPENING: Final = Scenario("opening", "Opens a connection, and looks for a callable tool.", _run_opening, passive=True)


# --- the suite --------------------------------------------------------------------------------------------------------


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    if capability(traffic, HANDSHAKE) or capability(traffic, MODERN):
        return ""
    asked = traffic.requests("client", "initialize")
    if not asked or asked[0].answer is None:
        return no_opening_reason(traffic, "server", "initialize")
    if asked[0].succeeded:
        version = asked[0].answer.result.get("protocolVersion")
        return f"the server speaks version {version}, but this suite is for {HANDSHAKE} and {MODERN}"
    return f"the server answered initialize with an error: {asked[0].answer.error.get('message')}"


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Return the version, the time of the first answer, and the answered calls with their durations.

    Calls without an error come first.
    """
    calls: list[dict[str, Any]] = [
        {
            "name": request.params.get("name"),
            "arguments": request.params.get("arguments"),
            "ms": round(request.answer.ms - request.ms, 3),
            "failed": request.answer.result.get("isError") is True,
        }
        for request in marked_requests(traffic, "call")
        if request.answer is not None and request.succeeded
    ]
    version = HANDSHAKE if capability(traffic, HANDSHAKE) else MODERN
    first = next((message.ms for message in traffic.sent("server") if message.is_response), 0.0)
    return {"version": version, "start_ms": first, "calls": sorted(calls, key=lambda call: call["failed"])}


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *messages.REQUIREMENTS,
    *versions.REQUIREMENTS,
    *listing.REQUIREMENTS,
    *tools.REQUIREMENTS,
    *offers.REQUIREMENTS,
    *cancelling.REQUIREMENTS,
    *subscriptions.REQUIREMENTS,
    *ending.REQUIREMENTS,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *versions.SCENARIOS,
    *listing.SCENARIOS,
    *offers.SCENARIOS,
    *tools.SCENARIOS,
    *subscriptions.SCENARIOS,
    *messages.SCENARIOS,
    *ending.SCENARIOS,
    *cancelling.SCENARIOS,
)

SUITE: Final = Suite(
    name="mcp-stdio",
    title="Model Context Protocol 2025-11-25 and 2026-07-28, servers on stdio",
    subject="server",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=_calibration,
    capability=capability,
)
