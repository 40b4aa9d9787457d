"""Schema versions: migrating once, with a copy of what was there, and never touching what is newer."""

from __future__ import annotations

import random
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

import pytest

from engine.core.errors import SessionReadOnlyError, StoreError, StoreTooNewError
from engine.core.ids import SessionId
from engine.log.store.schema import MIGRATIONS, Migration
from engine.log.store.sqlite import SqliteStore
from tests.support.archives import dropped, is_there, kept, values_kept
from tests.support.stores import A, B, CountingClock, Recorder, begun, message, texts

PRESENT = len(MIGRATIONS)


def _next(connection: Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN colour TEXT")


def _broken(connection: Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN half TEXT")
    connection.execute("INSERT INTO no_such_table VALUES (1)")


def opened(path: Path, migrations: Sequence[Migration]) -> SqliteStore:
    return SqliteStore(path, CountingClock(), migrations=migrations)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of the present version with one session of two events."""
    path = tmp_path / "sessions.db"
    store = opened(path, MIGRATIONS)
    begun(store, events=2)
    store.close()
    return path


def columns(path: Path) -> tuple[int, list[str]]:
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    names = [column[1] for column in connection.execute("PRAGMA table_info(sessions)")]
    connection.close()
    return version, names


def test_old_store_is_copied_privately_then_migrated(old: Path) -> None:
    later = opened(old, (*MIGRATIONS, _next))
    assert texts(later) == ["hello", "hello"]
    later.close()
    backup = old.with_name(f"sessions.db.v{PRESENT}.backup")
    assert (columns(old)[0], columns(backup)[0]) == (PRESENT + 1, PRESENT)
    assert "colour" in columns(old)[1]
    assert "colour" not in columns(backup)[1]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    restored = opened(backup, MIGRATIONS)
    assert texts(restored) == ["hello", "hello"]
    restored.close()


def test_a_store_is_migrated_once(old: Path) -> None:
    for _ in range(2):
        store = opened(old, (*MIGRATIONS, _next))
        assert store.row(A).events == 2
        store.close()
    assert columns(old)[0] == PRESENT + 1


def test_a_migration_that_fails_leaves_the_store_as_it_was(old: Path) -> None:
    broken = opened(old, (*MIGRATIONS, _next, _broken))
    with pytest.raises(StoreError, match="no_such_table"):
        broken.rows()
    broken.close()
    assert columns(old) == columns(old.with_name(f"sessions.db.v{PRESENT}.backup"))
    store = opened(old, MIGRATIONS)
    assert texts(store) == ["hello", "hello"]
    store.close()


def test_without_a_copy_there_is_no_migration(old: Path) -> None:
    old.with_name(f"sessions.db.v{PRESENT}.backup.partial").mkdir()
    later = opened(old, (*MIGRATIONS, _next))
    with pytest.raises(StoreError, match="cannot back up"):
        later.rows()
    later.close()
    assert columns(old)[0] == PRESENT


def test_a_new_store_gets_every_version_and_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = opened(path, (*MIGRATIONS, _next))
    assert store.rows() == []
    store.close()
    assert columns(path)[0] == PRESENT + 1
    assert not list(tmp_path.glob("*backup*"))


def test_a_newer_store_is_refused_and_left_alone(old: Path) -> None:
    later = opened(old, (*MIGRATIONS, _next))
    later.rows()
    later.close()
    before = old.read_bytes()
    store = opened(old, MIGRATIONS)
    with pytest.raises(StoreTooNewError, match="upgrade rewindow") as caught:
        store.rows()
    assert (caught.value.found, caught.value.known, caught.value.path) == (PRESENT + 1, PRESENT, str(old))
    store.close()
    assert old.read_bytes() == before


def test_older_program_does_not_write_a_migrated_store(old: Path) -> None:
    older = opened(old, MIGRATIONS)
    heard = Recorder()
    older.acquire(A, heard)
    older.submit(A, message(2))
    heard.wait_for(2)
    later = opened(old, (*MIGRATIONS, _next))
    begun(later, B, events=1)
    later.close()
    older.submit(A, message(3))
    assert isinstance(heard.wait_for_error(), StoreTooNewError)
    with pytest.raises(SessionReadOnlyError, match="upgrade rewindow"):
        older.submit(A, message(4))
    older.close()
    assert heard.seqs == [2]


@pytest.fixture
def first_version(tmp_path: Path) -> Path:
    """A store of schema version 1, as programs made it that kept neither sizes nor references."""
    path = tmp_path / "sessions.db"
    store = SqliteStore(tmp_path / "present.db", CountingClock())
    kept(store, A, [random.randbytes(50_000), b"shared"])
    kept(store, B, [b"shared"])
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode=WAL")
        MIGRATIONS[0](old)
        old.execute("ATTACH ? AS present", (str(tmp_path / "present.db"),))
        columns = "session, cwd, directories, title, created_at, updated_at, events"
        old.execute(f"INSERT INTO main.sessions SELECT {columns} FROM present.sessions")
        for table in ("events", "blobs"):
            old.execute(f"INSERT INTO main.{table} SELECT * FROM present.{table}")
        old.execute("INSERT INTO main.blobs VALUES ('blake2b-' || printf('%040d', 7), zeroblob(90000), 9)")
        old.execute("PRAGMA application_id=0x52574E44")
        old.execute("PRAGMA user_version=1")
    return path


def test_a_store_of_the_first_version_gets_references_and_sizes(first_version: Path, tmp_path: Path) -> None:
    migrated, present = (SqliteStore(path, CountingClock()) for path in (first_version, tmp_path / "present.db"))
    assert migrated.rows() == present.rows()
    for session_id in (A, B):
        assert migrated.contents(session_id) == present.contents(session_id) != frozenset()
        assert migrated.row(session_id).contents_size > 0
        assert migrated.droppable(session_id) == []
    (shared,) = migrated.contents(B)
    migrated.delete(A)
    assert migrated.blob_get(shared) == b"shared"
    migrated.delete(B)
    assert not is_there(migrated, shared)
    for store in (migrated, present):
        store.close()


def test_session_of_the_first_version_drops_only_new_values(first_version: Path) -> None:
    store = SqliteStore(first_version, CountingClock())
    before, heard = store.contents(B), Recorder()
    store.acquire(B, heard)
    value = store.blob_put(b"value")
    store.submit(B, values_kept(2, value))
    heard.wait_for(2)
    assert store.contents(B) == {*before, value}
    store.submit(B, dropped(3, before=3))
    heard.wait_for(3)
    assert store.contents(B) == before
    store.close()


def test_unused_first_version_store_gives_space_back(first_version: Path) -> None:
    store = SqliteStore(first_version, CountingClock())
    before = first_version.stat().st_size
    done = store.collect(store.row(B).updated_at)
    assert done.deleted == (A,)
    assert done.freed > 130_000  # with what no session ever named
    assert first_version.stat().st_size < before
    kept(store, SessionId("ses_new"), [random.randbytes(100_000)])
    assert store.collect(1e12).freed > 90_000
    store.close()
