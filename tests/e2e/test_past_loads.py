"""Random sessions that are loaded, after the agent has ended or was killed at a random instant, are what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.past_play import TOGETHER, compared

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", range(1_000, 1_500, TOGETHER))
def test_a_session_whose_agent_was_killed_is_what_it_was(tmp_path: Path, first: int) -> None:
    compared(tmp_path, first, "agent")


@pytest.mark.parametrize("first", range(1_500, 2_000, TOGETHER))
def test_session_is_unchanged_after_close_and_load(tmp_path: Path, first: int) -> None:
    compared(tmp_path, first, "nothing")
