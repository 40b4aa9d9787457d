"""Benches: over both kinds of environment for the contract suite (`test_contract_*`), over a worker for other tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from engine.runtime.environment import Environment
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import Bench, opened
from tests.support.in_process import InProcessEnvironment
from tests.support.routed import RoutedBench, routed
from tests.support.workers import shared_zygote

KINDS: dict[str, Callable[[], Environment]] = {
    "worker": lambda: WorkerEnvironment(shared_zygote()),
    "in-process": InProcessEnvironment,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make" in metafunc.fixturenames:
        is_contract = metafunc.module.__name__.rpartition(".")[2].startswith("test_contract_")
        metafunc.parametrize("make", KINDS if is_contract else ["worker"], indirect=True)


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[], Environment]:
    """Makes an environment of the kind that the test runs over."""
    return KINDS[request.param]


@pytest.fixture
async def b(make: Callable[[], Environment], tmp_path: Path) -> AsyncIterator[Bench[Environment]]:
    """A started environment."""
    async with opened(make(), tmp_path) as bench:
        yield bench


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[RoutedBench]:
    """A worker in a domain, whose host writes what its statements ask for."""
    async with routed(tmp_path) as opened_worker:
        yield opened_worker
