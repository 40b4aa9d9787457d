"""The sessions of one process for tests: real workers, closed afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from engine.config.settings import Settings
from engine.config.system import SystemClock
from engine.ports import Store
from engine.sessions.registry import Sessions
from tests.support.fixed import CountingEntropy
from tests.support.workers import PATIENCE, shared_zygote


@asynccontextmanager
async def sessions_of(tmp_path: Path, store: Store, **environ: str) -> AsyncIterator[Sessions]:
    """Sessions over `store`, as one process has them."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            sessions = Sessions(
                store=store,
                zygote=shared_zygote(),
                settings=Settings(state_dir=tmp_path),
                clock=SystemClock(),
                entropy=CountingEntropy(),
                environ=environ,
                tasks=tasks,
            )
            yield sessions
            await sessions.close_all()
