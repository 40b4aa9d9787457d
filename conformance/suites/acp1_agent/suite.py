"""The suite for agents of version 1: its areas, when an agent can be judged, and its calibration."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging import Requirement, marked_requests, no_opening_reason
from conformance.suite import Scenario, Suite
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
from conformance.suites.acp1_agent.client import auth_methods, capability
from conformance.traffic import Message, Traffic
from conformance.values import as_text

_AUTH_REQUIRED: Final = -32000
_VERSION: Final = 1


def _unrequested_version(traffic: Traffic) -> str:
    """Return the other version of an agent, unless the client asked for version 1 and so binds it to that."""
    for request in traffic.requests("client", "initialize"):
        if request.params.get("protocolVersion") != _VERSION and (other := _other_version(request)):
            return other
    return ""


def _other_version(request: Message) -> str:
    version = request.answer.result.get("protocolVersion") if request.answer is not None else None
    if isinstance(version, int) and version != _VERSION:
        return f"the agent speaks version {version} of the protocol, but this suite is for version {_VERSION}"
    return ""


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    asked = traffic.requests("client", "initialize")
    if not asked or asked[0].answer is None:
        return no_opening_reason(traffic, "agent", "initialize")
    if not asked[0].succeeded:
        return f"the agent answered initialize with an error: {asked[0].answer.error.get('message')}"
    if other := _other_version(asked[0]):
        return other
    for request in traffic.requests("client", "authenticate"):
        if request.answer is not None and not request.succeeded:
            return _refused(traffic, request, as_text(request.answer.error.get("message")))
    for request in traffic.requests("client", "session/new", "session/prompt"):
        if request.answer is not None and request.answer.error.get("code") == _AUTH_REQUIRED:
            return "the agent needs authentication: choose one of its methods with --auth"
    return ""


def _refused(traffic: Traffic, request: Message, why: str) -> str:
    offered = ", ".join(as_text(method.get("id")) for method in auth_methods(traffic) or ()) or "none"
    method = as_text(request.params.get("methodId"))
    return f"the agent refused the authentication method {method!r}: {why}. It offers: {offered}"


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
