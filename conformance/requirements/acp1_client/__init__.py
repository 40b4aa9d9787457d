"""Requirements for clients that speak version 1 of the Agent Client Protocol: a file for each area, listed here."""

from __future__ import annotations

from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.acp1_client import (
    files,
    framing,
    initializing,
    malformed,
    messages,
    permitting,
    prompting,
    sessions,
    terminals,
    updating,
)

REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *framing.REQUIREMENTS,
    *messages.REQUIREMENTS,
    *initializing.REQUIREMENTS,
    *sessions.REQUIREMENTS,
    *prompting.REQUIREMENTS,
    *updating.REQUIREMENTS,
    *permitting.REQUIREMENTS,
    *files.REQUIREMENTS,
    *terminals.REQUIREMENTS,
    *malformed.REQUIREMENTS,
)
