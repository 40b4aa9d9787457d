"""The table of suites. Another protocol, version or role is a row here, and a folder or module beside this one.

Imports a suite when it is first asked for, because its requirements compile their schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.suite import Suite


def _acp1_agent() -> Suite:
    from conformance.suites.acp1_agent import suite

    return suite.SUITE


def _acp2_agent() -> Suite:
    from conformance.suites import acp2_agent

    return acp2_agent.SUITE


def _acp1_client() -> Suite:
    from conformance.suites.acp1_client import suite

    return suite.SUITE


def _acp_remote() -> Suite:
    from conformance.suites import acp_remote

    return acp_remote.SUITE


def _mcp_stdio() -> Suite:
    from conformance.suites.mcp_stdio import suite

    return suite.SUITE


def _vectors() -> Suite:
    from conformance.suites import vectors

    return vectors.SUITE


SUITES: Final[dict[str, Callable[[], Suite]]] = {
    "acp": _acp1_agent,
    "acp-2": _acp2_agent,
    "acp-client": _acp1_client,
    "remote": _acp_remote,
    "mcp": _mcp_stdio,
    "vectors": _vectors,
}
"""Loaders, by the command that runs the suite; `acp --protocol-version 2` runs `acp-2`, `acp --transport` `remote`."""


def suites_of(protocol: str) -> list[Suite]:
    """Load the suites of a protocol, one for each side and version: `acp`, `acp-2` and `acp-client` for `acp`."""
    return [load() for name, load in SUITES.items() if name.partition("-")[0] == protocol]
