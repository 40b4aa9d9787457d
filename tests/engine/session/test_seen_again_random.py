"""Random sessions with running views see after a load what they saw before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.random_sessions import VIEWS, through_engine, wrong_after_losses

pytestmark = pytest.mark.anyio
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 2 + settings().max_examples))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_session_sees_the_same_after_losses(tmp_path: Path, seed: int) -> None:
    assert await wrong_after_losses(tmp_path, seed, through_engine, *VIEWS) == []
