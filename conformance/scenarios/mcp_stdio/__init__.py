"""Scenarios for MCP servers on stdio: a file for each area, a row here for each."""

from __future__ import annotations

from typing import Final

from conformance.scenarios.mcp_stdio import (
    calling,
    cancelling,
    ending,
    framing,
    listing,
    opening,
    reading,
    subscribing,
    versions,
)
from conformance.suite import Scenario

OPENING: Final = opening.OPENING
SCENARIOS: Final[tuple[Scenario, ...]] = (
    *versions.SCENARIOS,
    *listing.SCENARIOS,
    *reading.SCENARIOS,
    *calling.SCENARIOS,
    *subscribing.SCENARIOS,
    *framing.SCENARIOS,
    *ending.SCENARIOS,
    *cancelling.SCENARIOS,
)
