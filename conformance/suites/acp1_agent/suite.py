"""The suite for agents of version 1: its areas, when an agent can be judged, and its calibration."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging import Requirement, marked_requests
from conformance.suite import Scenario, Suite
from conformance.suites.acp import obstacle, other_version
from conformance.suites.acp1_agent import (
    cancelling,
    configuring,
    framing,
    initializing,
    loading,
    malformed,
    messages,
    permitting,
    prompting,
    serving,
    sessions,
    updates,
)
from conformance.suites.acp1_agent.client import capability
from conformance.traffic import Traffic

_VERSION: Final = 1


def _unrequested_version(traffic: Traffic) -> str:
    """Return the other version of an agent, unless the client asked for version 1 and so binds it to that."""
    asked = traffic.requests("client", "initialize")
    return other_version([one for one in asked if one.params.get("protocolVersion") != _VERSION], _VERSION)


def _obstacle(traffic: Traffic) -> str:
    return obstacle(traffic, _VERSION, "authenticate", "id")


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Return the milliseconds of a normal turn and a slow one; for an unfinished one, how long it was watched."""
    times: dict[str, Any] = {}
    for label, name in (("turn", "turn_ms"), ("slow-turn", "slow_turn_ms")):
        for prompt in marked_requests(traffic, label):
            end = prompt.answer.ms if prompt.answer is not None else traffic.transcript.entries[-1].ms
            times[name] = round(end - prompt.ms, 3)
    return times


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *framing.REQUIREMENTS,
    *messages.REQUIREMENTS,
    *initializing.REQUIREMENTS,
    *sessions.REQUIREMENTS,
    *loading.REQUIREMENTS,
    *prompting.REQUIREMENTS,
    *updates.REQUIREMENTS,
    *permitting.REQUIREMENTS,
    *serving.REQUIREMENTS,
    *configuring.REQUIREMENTS,
    *cancelling.REQUIREMENTS,
    *malformed.REQUIREMENTS,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *initializing.SCENARIOS,
    *sessions.SCENARIOS,
    *prompting.SCENARIOS,
    *permitting.SCENARIOS,
    *serving.SCENARIOS,
    *configuring.SCENARIOS,
    *framing.SCENARIOS,
    *malformed.SCENARIOS,
    *cancelling.SCENARIOS,
    *permitting.LASTING,
)

SUITE: Final = Suite(
    name="acp1-agent",
    title="Agent Client Protocol 1, agents",
    subject="server",
    requirements=REQUIREMENTS,
    opening=prompting.OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    unrequested_version=_unrequested_version,
    calibration=_calibration,
    capability=capability,
    server="agent",
)
