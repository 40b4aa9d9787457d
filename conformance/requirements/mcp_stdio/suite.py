"""The suite for MCP servers on stdio: when one can be judged at all, and which of its tools may be called."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging import marked, not_answered
from conformance.requirements.mcp_stdio import REQUIREMENTS
from conformance.requirements.mcp_stdio.reading import HANDSHAKE, MODERN, capability
from conformance.scenarios.mcp_stdio import OPENING, SCENARIOS
from conformance.suite import Suite
from conformance.traffic import Traffic


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    if capability(traffic, HANDSHAKE) or capability(traffic, MODERN):
        return ""
    asked = traffic.requests("client", "initialize")
    if not asked or asked[0].answer is None:
        return not_answered(traffic, "server", "initialize")
    if asked[0].succeeded:
        version = asked[0].answer.result.get("protocolVersion")
        return f"the server speaks version {version}, and this suite is for {HANDSHAKE} and {MODERN}"
    return f"the server answered initialize with an error: {asked[0].answer.error.get('message')}"


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """The version to speak, how long the first answer took, and the calls that were answered, with their time.

    Calls without an error come first.
    """
    calls: list[dict[str, Any]] = [
        {
            "name": request.params.get("name"),
            "arguments": request.params.get("arguments"),
            "ms": round(request.answer.ms - request.ms, 3),
            "failed": request.answer.result.get("isError") is True,
        }
        for request in marked(traffic, "call")
        if request.answer is not None and request.succeeded
    ]
    version = HANDSHAKE if capability(traffic, HANDSHAKE) else MODERN
    first = next((message.ms for message in traffic.sent("server") if message.is_response), 0.0)
    return {"version": version, "start_ms": first, "calls": sorted(calls, key=lambda call: call["failed"])}


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
