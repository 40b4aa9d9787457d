"""The suite for implementations of the View and of request cycles: when one can be judged at all."""

from __future__ import annotations

from typing import Any, Final

from conformance.requirements.vectors import REQUIREMENTS, operations_of
from conformance.scenarios.vectors import HELLO, OPENING, SCENARIOS
from conformance.suite import Suite
from conformance.traffic import Traffic


def _obstacle(traffic: Traffic) -> str:
    for entry in traffic.marks("not-started"):
        return str(entry.value)
    asked = traffic.requests("client", HELLO)
    if not asked or asked[0].answer is None:
        return "the program did not answer hello"
    known = [scenario.name for scenario in SCENARIOS]
    if not set(map(str, operations_of(traffic))) & set(known):
        return f"the program names no operation of {', '.join(known)}"
    return ""


def _calibration(traffic: Traffic) -> dict[str, Any]:
    del traffic
    return {}


def _capability(traffic: Traffic, operation: str) -> bool | None:
    return operation in operations_of(traffic)


SUITE: Final = Suite(
    name="vectors",
    title="Vectors of the View and of request cycles",
    subject="server",
    requirements=REQUIREMENTS,
    opening=OPENING,
    scenarios=SCENARIOS,
    obstacle=_obstacle,
    calibration=_calibration,
    capability=_capability,
)
