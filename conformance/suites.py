"""The suites there are. A further protocol, version or role is a row here and two folders: requirements, scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.suite import Suite


def _acp1_agent() -> Suite:
    from conformance.requirements.acp1_agent import suite

    return suite.SUITE


def _acp1_client() -> Suite:
    from conformance.requirements.acp1_client import suite

    return suite.SUITE


def _mcp_stdio() -> Suite:
    from conformance.requirements.mcp_stdio import suite

    return suite.SUITE


def _vectors() -> Suite:
    from conformance.requirements.vectors import suite

    return suite.SUITE


SUITES: Final[dict[str, Callable[[], Suite]]] = {
    "acp": _acp1_agent,
    "acp-client": _acp1_client,
    "mcp": _mcp_stdio,
    "vectors": _vectors,
}
"""By the command that runs them. Each is loaded when it is asked for, because requirements compile their schema."""


def suites_of(protocol: str) -> list[Suite]:
    """Those that judge either side of a protocol: `acp` and what begins with `acp-`."""
    return [load() for name, load in SUITES.items() if name.partition("-")[0] == protocol]
