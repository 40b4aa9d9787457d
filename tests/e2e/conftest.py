"""Agents and servers are tested as users run them: in the sandbox, where a model or a client writes the statements.

A test that is about the mode without one says so to its agents (`REWINDOW_SANDBOX=off`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

_WITHOUT: Final = (
    "test_acpx_sessions",
    "test_cancel_races",
    "test_cancel_requests",
    "test_bad_input",
    "test_interleaving",
    "test_hostile_statements",
    "test_mcp_clients",
)
"""Modules in which some tests count on a question about each statement."""


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it(request: pytest.FixtureRequest) -> Iterator[None]:
    """The setting `sandbox` as it is without any word on it."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.module.__name__.endswith(_WITHOUT):
            patch.delenv("REWINDOW_SANDBOX")
        yield
