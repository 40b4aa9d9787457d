"""Random sessions through the engine, ACP and MCP hold after losses what they held, and report no false difference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from engine.core.clock import SystemClock
from tests.support.postgresql import Server
from tests.support.random_sessions import Opened, over_acp, over_acp_at, over_mcp, through_engine, wrong_after_losses
from tests.support.remote_stores import RemoteStore

pytestmark = pytest.mark.anyio
SEEDS = range(settings().max_examples)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("opened", [over_acp, over_mcp, through_engine])
async def test_random_session_is_unchanged_after_losses(tmp_path: Path, opened: Opened, seed: int) -> None:
    assert await wrong_after_losses(tmp_path, seed, opened) == []


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed == 1 else pytest.mark.slow) for seed in SEEDS])
async def test_random_session_in_postgresql_is_unchanged_after_losses(
    tmp_path: Path, postgresql: Callable[[str], Server], seed: int
) -> None:
    with closing(postgresql("18").store(SystemClock())) as opened:
        store = RemoteStore(opened)
        assert await wrong_after_losses(tmp_path, seed, partial(through_engine, store=store)) == []
    assert store.waits == []


@pytest.mark.slow  # a killed agent's lease has to expire
@pytest.mark.parametrize("seed", SEEDS[:5])
async def test_random_session_of_an_agent_in_postgresql_is_unchanged_after_losses(
    tmp_path: Path, postgresql: Callable[[str], Server], seed: int
) -> None:
    address = postgresql("18").new_database()
    assert await wrong_after_losses(tmp_path, seed, partial(over_acp_at, address)) == []
