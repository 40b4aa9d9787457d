"""Random sessions through the engine, ACP and MCP hold after losses what they held, and report no false difference."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.random_sessions import Opened, over_acp, over_mcp, through_engine, wrong_after_losses

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SEEDS = pytest.mark.parametrize("seed", range(settings().max_examples))


@SEEDS
@pytest.mark.parametrize("opened", [over_acp, over_mcp, through_engine])
async def test_random_session_is_unchanged_after_losses(tmp_path: Path, opened: Opened, seed: int) -> None:
    assert await wrong_after_losses(tmp_path, seed, opened) == []
