"""Random sessions whose worker, or worker and agent, are killed at random instants are what they were without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.past_play import TOGETHER, compared, many


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, TOGETHER))
def test_a_session_whose_worker_was_killed_is_what_it_was(tmp_path: Path, first: int) -> None:
    compared(tmp_path, first, "worker")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(500, 1_000, TOGETHER))
def test_many_sessions_are_unchanged_after_kills(tmp_path: Path, first: int) -> None:
    compared(tmp_path, first, "both")


@pytest.mark.slow
def test_few_sessions_are_unchanged_after_kills(tmp_path: Path) -> None:
    assert many(tmp_path, 5_000, 2, "both", steps=3)["same"] > 0
