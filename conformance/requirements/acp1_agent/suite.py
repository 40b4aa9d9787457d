"""The suite for agents of version 1: when one can be judged at all, and what its undisturbed turns tell."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging import marked, not_answered
from conformance.requirements.acp1_agent import REQUIREMENTS
from conformance.requirements.acp1_agent.reading import auth_methods, capability
from conformance.scenarios.acp1_agent import OPENING, SCENARIOS
from conformance.suite import Suite
from conformance.traffic import Message, Traffic
from conformance.values import as_text

_AUTH_REQUIRED: Final = -32000
_VERSION: Final = 1


def _foreign(traffic: Traffic) -> str:
    """Asked for version 1 and answered with another one, an agent is still held to version 1."""
    for request in traffic.requests("client", "initialize"):
        if request.params.get("protocolVersion") != _VERSION and (other := _other_version(request)):
            return other
    return ""


def _other_version(request: Message) -> str:
    version = request.answer.result.get("protocolVersion") if request.answer is not None else None
    if isinstance(version, int) and version != _VERSION:
        return f"the agent speaks version {version} of the protocol, and this suite is for version {_VERSION}"
    return ""


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    asked = traffic.requests("client", "initialize")
    if not asked or asked[0].answer is None:
        return not_answered(traffic, "agent", "initialize")
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
    return f"the agent refused to authenticate by {method!r}: {why}. The methods that it offers: {offered}"


def _calibration(traffic: Traffic) -> dict[str, Any]:
    """Milliseconds of an undisturbed turn and of a slow one; of one that did not end, as long as it was watched."""
    times: dict[str, Any] = {}
    for label, name in (("turn", "turn_ms"), ("slow-turn", "slow_turn_ms")):
        for prompt in marked(traffic, label):
            end = prompt.answer.ms if prompt.answer is not None else traffic.transcript.entries[-1].ms
            times[name] = round(end - prompt.ms, 3)
    return times


SUITE: Final = Suite(
    name="acp1-agent",
    title="Agent Client Protocol 1, agents",
    subject="server",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    foreign=_foreign,
    calibration=_calibration,
    capability=capability,
    server="agent",
)
