"""Requirements for MCP servers on stdio, versions 2025-11-25 and 2026-07-28: a file for each area, listed here."""

from __future__ import annotations

from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.mcp_stdio import (
    cancelling,
    ending,
    framing,
    handshakes,
    listing,
    messages,
    metadata,
    modern,
    offers,
    results,
    subscriptions,
    tools,
)

REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *framing.REQUIREMENTS,
    *messages.REQUIREMENTS,
    *handshakes.REQUIREMENTS,
    *metadata.REQUIREMENTS,
    *modern.REQUIREMENTS,
    *listing.REQUIREMENTS,
    *tools.REQUIREMENTS,
    *results.REQUIREMENTS,
    *offers.REQUIREMENTS,
    *cancelling.REQUIREMENTS,
    *subscriptions.REQUIREMENTS,
    *ending.REQUIREMENTS,
)
