"""An agent in memory for each test, with the store that outlives it and a gate for its statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine.core.clock import SystemClock
from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SystemClock())


@pytest.fixture
async def agent(tmp_path: Path, store: MemoryStore) -> AsyncIterator[Client]:
    async with in_memory(tmp_path, store=store) as client:
        yield client


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.release()
