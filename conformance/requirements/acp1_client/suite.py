"""The suite for clients of version 1: when one can be judged at all, and whether it ends by itself."""

from __future__ import annotations

from typing import Any, Final

from conformance.requirements.acp1_client import REQUIREMENTS
from conformance.requirements.acp1_client.reading import SIDE, capability
from conformance.scenarios.acp1_client import OPENING, SCENARIOS
from conformance.suite import Suite
from conformance.traffic import Traffic
from conformance.values import at

_VERSION: Final = 1
_NEEDED: Final = {
    "initialize": "the client did not start the agent, or did not call initialize",
    "session/new": "the client opened no session: it has to do so by itself",
    "session/prompt": "the client sent no prompt: it has to send one by itself",
}


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    for request in traffic.requests(SIDE, "initialize"):
        version = request.params.get("protocolVersion")
        if isinstance(version, int) and version != _VERSION and not traffic.requests(SIDE, "session/new"):
            return f"the client speaks version {version} of the protocol, and this suite is for version {_VERSION}"
    return next((why for method, why in _NEEDED.items() if not traffic.requests(SIDE, method)), "")


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Whether the client ends when its turn has, or has to be ended."""
    return {"ends_by_itself": any(at(entry.value, "by") == "by itself" for entry in traffic.marks("ended"))}


SUITE: Final = Suite(
    name="acp1-client",
    title="Agent Client Protocol 1, clients",
    subject="client",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=_calibration,
    capability=capability,
    server="agent",
)
