"""A short episode with a fixed seed; `make faults` runs them with new ones for as long as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.episode import run
from tests.faults.filesystem import why_not
from tests.faults.power import Loss, lose_power

SEED = 3
SECONDS = 5.0


def test_episode_with_faults_and_power_losses(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    result, recording = run(tmp_path, SEED, SECONDS, losses=12)
    assert result.wrong == []
    assert recording is not None
    assert result.counts.acts > 0
    lies = [Loss(len(recording.operations), "posix", seed, lies=True) for seed in range(4)]
    # A disk that lies about fsync loses what it had confirmed, and the judge notices.
    assert any(lose_power(recording, tmp_path / "disk", loss, restarts=False) for loss in lies)
