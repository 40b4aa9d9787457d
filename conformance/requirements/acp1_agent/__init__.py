"""Requirements for agents that speak version 1 of the Agent Client Protocol: a file for each area, listed here."""

from __future__ import annotations

from typing import Final

from conformance.requirement import Requirement
from conformance.requirements.acp1_agent import (
    authenticating,
    cancelling,
    configuring,
    framing,
    initializing,
    loading,
    malformed,
    messages,
    ordering,
    permitting,
    prompting,
    serving,
    sessions,
    toolcalls,
    updates,
)

REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    *framing.REQUIREMENTS,
    *messages.REQUIREMENTS,
    *initializing.REQUIREMENTS,
    *authenticating.REQUIREMENTS,
    *sessions.REQUIREMENTS,
    *loading.REQUIREMENTS,
    *prompting.REQUIREMENTS,
    *updates.REQUIREMENTS,
    *ordering.REQUIREMENTS,
    *toolcalls.REQUIREMENTS,
    *permitting.REQUIREMENTS,
    *serving.REQUIREMENTS,
    *configuring.REQUIREMENTS,
    *cancelling.REQUIREMENTS,
    *malformed.REQUIREMENTS,
)
