"""A few faults of a provider and of MCP servers, with a fixed seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import peers

pytestmark = pytest.mark.slow


def test_turns_work_after_peers_that_misbehave(tmp_path: Path) -> None:
    result = peers.run(tmp_path, 1, 60.0, most=6)
    assert result.wrong == []
    assert result.counts.wire == 6
    assert len(result.kinds) == 2
