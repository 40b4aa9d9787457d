"""Every store of the registry, for the contract tests: whoever takes `make` or `store` runs once with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.ports import Clock, Store
from engine.store import STORES
from tests.support.stores import CountingClock


@pytest.fixture(params=[make for _, make in STORES], ids=[name for name, _ in STORES])
def make(request: pytest.FixtureRequest) -> Callable[[Path, Clock], Store]:
    """The maker of one kind."""
    maker: Callable[[Path, Clock], Store] = request.param
    return maker


@pytest.fixture
def store(make: Callable[[Path, Clock], Store], tmp_path: Path) -> Iterator[Store]:
    """A new one, in a directory that is not there yet."""
    opened = make(tmp_path / "state" / "sessions.db", CountingClock())
    yield opened
    opened.close()
