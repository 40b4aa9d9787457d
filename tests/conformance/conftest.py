"""What the tests of the conformance suite give the peers that they start."""

from __future__ import annotations

import pytest

from tests.conformance.suite_runs import KEEP


@pytest.fixture(autouse=True, scope="session")
def kept_conversations(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Peers keep what their next process needs in a temporary directory, whatever directory they work in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEEP, str(tmp_path_factory.mktemp("kept")))
        yield
