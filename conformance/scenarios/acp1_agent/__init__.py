"""Scenarios for agents that speak version 1 of the Agent Client Protocol: a file for each area, a row here for each."""

from __future__ import annotations

from typing import Final

from conformance.scenarios.acp1_agent import (
    cancelling,
    configuring,
    framing,
    initializing,
    malformed,
    permitting,
    prompting,
    serving,
    sessions,
)
from conformance.suite import Scenario

OPENING: Final = prompting.OPENING
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
