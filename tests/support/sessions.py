"""The sessions of one process for tests, through the public API: real workers unless told otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio

from engine import Environment, Host, Model, Sessions, Settings, Store
from engine.core.clock import Clock, Entropy, SystemClock
from engine.log.store.memory import MemoryStore
from engine.runtime.server_program import ServerProgram
from tests.support.fixed import CountingEntropy
from tests.support.workers import PATIENCE, new_worker, shared_zygote


class LentStore:
    """A store that outlives the host that is given it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def close(self) -> None:
        """Left to whoever lends it."""


@asynccontextmanager
async def sessions_of(
    tmp_path: Path,
    store: Store | None = None,
    *,
    model: Model | None = None,
    environments: Callable[[], Environment] | None = None,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    settings: dict[str, object] | None = None,
    **environ: str,
) -> AsyncIterator[Sessions]:
    """Sessions over `store`, in memory where there is none, as one process has them."""
    with anyio.fail_after(PATIENCE * 2):
        host = Host(
            Settings(state_dir=tmp_path, **(settings or {})),
            environ,
            environments=environments or new_worker,
            models=None if model is None else (lambda: model),
            store=_lent(store) if store is not None else MemoryStore(clock or SystemClock()),
            clock=clock,
            entropy=entropy or CountingEntropy(),
            start_server=lambda spec, request: ServerProgram.start(shared_zygote(), spec, request),
        )
        async with host:
            yield host.sessions


def _lent(store: Store) -> Store:
    return store if isinstance(store, LentStore) else cast("Store", LentStore(store))
