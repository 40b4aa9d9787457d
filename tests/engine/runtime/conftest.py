"""The environments that the contract suite (`test_contract_*`) runs over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from engine.runtime.environment import Environment
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import Bench, opened
from tests.support.in_process import InProcessEnvironment
from tests.support.workers import shared_zygote

KINDS: dict[str, Callable[[], Environment]] = {
    "worker": lambda: WorkerEnvironment(shared_zygote()),
    "in-process": InProcessEnvironment,
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], Environment]:
    """Makes an environment of the kind that the test runs over."""
    return KINDS[request.param]


@pytest.fixture
async def b(make: Callable[[], Environment], tmp_path: Path) -> AsyncIterator[Bench[Environment]]:
    """A started environment."""
    async with opened(make(), tmp_path) as bench:
        yield bench
