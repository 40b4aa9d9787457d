"""Scenarios for clients of version 1 of the Agent Client Protocol: a file for each area, a row here for each."""

from __future__ import annotations

from typing import Final

from conformance.scenarios.acp1_client import files, framing, malformed, opening, permitting, terminals, updating
from conformance.suite import Scenario

OPENING: Final = opening.OPENING
SCENARIOS: Final[tuple[Scenario, ...]] = (
    *opening.SCENARIOS,
    *framing.SCENARIOS,
    *updating.SCENARIOS,
    *permitting.SCENARIOS,
    *files.SCENARIOS,
    *terminals.SCENARIOS,
    *malformed.SCENARIOS,
)
