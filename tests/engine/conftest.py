"""What tests of several rooms share: every store, a board, and a user's directory with sessions in it."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.core.clock import Clock
from engine.log.store import STORES
from engine.log.store_protocol import Store
from tests.support.archives import kept
from tests.support.boards import Desk
from tests.support.commands import Home
from tests.support.postgresql import Server, new_schema, servers
from tests.support.stores import A, B, CountingClock, message, row

KINDS = (
    *(name for name, _ in STORES),
    "postgresql 18",
    pytest.param("postgresql 15", marks=pytest.mark.slow),
)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[str], Server]]:
    """Returns the server of a version, which all tests of this process share."""
    with servers() as started:
        yield started


@pytest.fixture(scope="session", params=KINDS)
def make(request: pytest.FixtureRequest, postgresql: Callable[[str], Server]) -> Callable[[Path, Clock], Store]:
    """The maker of one kind. The same path is the same store, except in memory."""
    kind, _, version = request.param.partition(" ")
    if not version:
        return dict(STORES)[kind]
    schemas: dict[Path, str] = defaultdict(new_schema)
    return lambda path, clock: postgresql(version).store(clock, schemas[path])


@pytest.fixture
def store(make: Callable[[Path, Clock], Store], tmp_path: Path) -> Iterator[Store]:
    """A new one, in a directory that is not there yet."""
    opened = make(tmp_path / "state" / "sessions.db", CountingClock())
    yield opened
    opened.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A board over an empty directory."""
    return Desk(tmp_path)


@pytest.fixture
def empty(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """What `home` is a copy of, made once because every commit waits for the disk."""
    home = Home(tmp_path_factory.mktemp("furnished"))
    store = home.store()
    titled = replace(row(B, "/home"), title="red [bold]title\x1b[0m", created_at=4e9, updated_at=4e9)
    store.add(titled, [message(0, "é")])
    store.add(replace(row("other"), created_at=1.0, updated_at=1.0), [message(seq) for seq in range(3)])
    kept(store, A, [b"content" * 10_000])
    store.close()
    return home


@pytest.fixture
def home(empty: Home, furnished: Home) -> Home:
    """Sessions `ses_a` (of /work, with contents), `ses_b` (of /home, with a title), `other` (updated in 1970)."""
    shutil.copytree(furnished.state, empty.state)
    return empty
