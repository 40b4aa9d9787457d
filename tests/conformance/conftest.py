"""Fixtures for peers of the conformance tests."""

from __future__ import annotations

import pytest

from tests.conformance.suite_runs import KEEP


@pytest.fixture(autouse=True, scope="session")
def kept_conversations(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give peers a temporary directory for data that their next process needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEEP, str(tmp_path_factory.mktemp("kept")))
        yield
