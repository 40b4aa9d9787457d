"""The suite for clients of version 1: its areas, when a client can be judged, and whether it exits on its own."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging import Requirement
from conformance.suite import Scenario, Suite
from conformance.suites.acp1_client import files, malformed, messages, opening, permitting, terminals, turns
from conformance.suites.acp1_client.agent import SIDE, capability
from conformance.traffic import Traffic
from conformance.values import at

_VERSION: Final = 1
_NEEDED: Final = {
    "initialize": "the client did not start the agent, or did not call initialize",
    "session/new": "the client opened no session; it must open one without a person",
    "session/prompt": "the client sent no prompt; it must send one without a person",
}


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    for request in traffic.requests(SIDE, "initialize"):
        version = request.params.get("protocolVersion")
        if isinstance(version, int) and version != _VERSION and not traffic.requests(SIDE, "session/new"):
            return f"the client speaks version {version} of the protocol, but this suite is for version {_VERSION}"
    return next((why for method, why in _NEEDED.items() if not traffic.requests(SIDE, method)), "")


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Return whether the client exits after its turn, or must be ended."""
    return {"ends_by_itself": any(at(entry.value, "by") == "by itself" for entry in traffic.marks("ended"))}


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *messages.REQUIREMENTS,
    *opening.REQUIREMENTS,
    *turns.REQUIREMENTS,
    *permitting.REQUIREMENTS,
    *files.REQUIREMENTS,
    *terminals.REQUIREMENTS,
    *malformed.REQUIREMENTS,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *opening.SCENARIOS,
    *messages.SCENARIOS,
    *turns.SCENARIOS,
    *permitting.SCENARIOS,
    *files.SCENARIOS,
    *terminals.SCENARIOS,
    *malformed.SCENARIOS,
)

SUITE: Final = Suite(
    name="acp1-client",
    title="Agent Client Protocol 1, clients",
    subject="client",
    requirements=REQUIREMENTS,
    opening=opening.OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=_calibration,
    capability=capability,
    server="agent",
)
