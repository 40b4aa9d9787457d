"""A SQLite store in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.log.store.sqlite import SqliteStore
from tests.support.stores import CountingClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the store that `sqlite` is."""
    return tmp_path / "sessions.db"


@pytest.fixture
def sqlite(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, CountingClock())
    yield store
    store.close()
