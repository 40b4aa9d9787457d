"""The SQLite store's files: creation, recognition, permissions, damage, versions, pages of sessions."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace

import pytest

from engine.core.errors import SessionReadOnlyError, StoreError, StoreTooNewError
from engine.core.ids import SessionId
from engine.log.store import database, stored
from engine.log.store.database import Database, explain, make_directory
from engine.log.store.schema import APPLICATION_ID, MIGRATIONS, Migration
from engine.log.store.sqlite import SqliteStore
from engine.log.store.stored import row_of
from tests.support.archives import dropped, is_there, kept, values_kept
from tests.support.stores import A, B, CountingClock, Recorder, begun, message, outcome, texts


def modes(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): stat.S_IMODE(path.stat().st_mode) for path in top.rglob("*")}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_with_any_umask(tmp_path: Path, umask: int) -> None:
    sqlite = SqliteStore(tmp_path / "made" / "for" / "us" / "sessions.db", CountingClock())
    before = os.umask(umask)
    try:
        begun(sqlite, events=1)
        found = modes(tmp_path)
    finally:
        os.umask(before)
    sqlite.close()
    state = "made/for/us"
    assert found == {
        "made": 0o700,
        "made/for": 0o700,
        state: 0o700,
        f"{state}/locks": 0o700,
        f"{state}/locks/sessions.db.ses_a.lock": 0o600,
        f"{state}/sessions.db": 0o600,
        f"{state}/sessions.db-wal": 0o600,
        f"{state}/sessions.db-shm": 0o600,
    }


def test_rights_that_others_got_are_taken_back(sqlite: SqliteStore, path: Path, tmp_path: Path) -> None:
    path.touch(0o666)
    path.chmod(0o666)
    begun(sqlite, events=1)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("sessions.db*")} == {0o600}


def test_nothing_is_left_behind_but_the_database(sqlite: SqliteStore, tmp_path: Path) -> None:
    begun(sqlite, events=1)
    sqlite.close()
    assert sorted(modes(tmp_path)) == ["locks", "sessions.db"]


@pytest.mark.parametrize("name", [b"caf\xe9 \xff%20?#.db", "ses ü.db".encode(), b":memory:", b"file:x?mode=memory"])
def test_a_path_may_be_any_bytes(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name[:5] + b".d") / os.fsdecode(name)
    sqlite = SqliteStore(path, CountingClock())
    begun(sqlite, events=2)
    sqlite.close()
    again = SqliteStore(path, CountingClock())
    assert texts(again) == ["hello", "hello"]
    again.close()
    assert path.exists()


def test_a_symbolic_link_leads_to_the_same_locks(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "sessions.db")
    store = SqliteStore(tmp_path / "link.db", CountingClock())
    begun(store, events=1)
    assert (tmp_path / "real" / "locks" / "sessions.db.ses_a.lock").read_text() == f"{os.getpid()}\n"
    store.close()


def _make_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")


FOREIGN: dict[str, Callable[[Path], object]] = {
    "long text": lambda path: path.write_bytes(b"this is somebody's text, and more than a page of it. " * 200),
    "short text": lambda path: path.write_text("short"),
    "foreign database": _make_foreign_database,
    "directory": lambda path: path.mkdir(),
    "below a file": lambda path: (path.parent.rmdir(), path.parent.write_text("a file")),
}


@pytest.mark.parametrize("prepare", FOREIGN.values(), ids=FOREIGN)
def test_foreign_file_is_refused_and_left_alone(tmp_path: Path, prepare: Callable[[Path], object]) -> None:
    path = tmp_path / "state" / "sessions.db"
    sqlite = SqliteStore(path, CountingClock())
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):
        with pytest.raises(StoreError, match=r"(move it away|make its directory writable) or choose another path"):
            sqlite.rows()
    sqlite.close()
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_store(sqlite: SqliteStore, path: Path) -> None:
    path.touch()
    assert sqlite.rows() == []
    sqlite.close()
    connection = sqlite3.connect(path)
    settings = [
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "application_id", "user_version")
    ]
    connection.close()
    assert settings == ["wal", APPLICATION_ID, len(MIGRATIONS)]


def test_every_connection_writes_durably(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "sessions.db"), 10.0, MIGRATIONS)
    connection = database.connect()
    full = 2
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == full
    assert connection.execute("PRAGMA fullfsync").fetchone()[0] == 1
    assert connection.execute("PRAGMA checkpoint_fullfsync").fetchone()[0] == 1
    assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.close()
    database.close()


def test_unused_store_closes_without_touching_the_disk(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "state" / "sessions.db", CountingClock()).close()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_is_left_open(sqlite: SqliteStore) -> None:
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    begun(sqlite, events=3)
    sqlite.close()
    assert (set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()) <= before


def test_content_that_was_damaged_on_disk_is_not_handed_out(sqlite: SqliteStore, path: Path) -> None:
    digest, other = sqlite.blob_put(b"one thing"), sqlite.blob_put(b"another thing")
    begun(sqlite, events=1, text=f"{digest} {other}")
    sqlite.close()
    with sqlite3.connect(path) as connection:
        swap = "UPDATE blobs SET data = (SELECT data FROM blobs WHERE digest = ?) WHERE digest = ?"
        connection.execute(swap, (other, digest))
        connection.execute("UPDATE blobs SET data = x'00' WHERE digest = ?", (other,))
    connection.close()
    again = SqliteStore(path, CountingClock())
    for damaged in (digest, other):
        with pytest.raises(StoreError, match="damaged"):
            again.blob_get(damaged)
    again.close()


def test_event_of_a_later_version_is_named(sqlite: SqliteStore, path: Path) -> None:
    begun(sqlite, events=3)
    sqlite.close()
    with sqlite3.connect(path) as connection:
        connection.execute("""UPDATE events SET json = '{"kind":"dreamt","v":9}' WHERE seq = 1""")
    connection.close()
    again = SqliteStore(path, CountingClock())
    with pytest.raises(StoreError, match=r"event 1 of session ses_a cannot be read.*dreamt"):
        again.load(A)
    assert [event.seq for event in again.load(A, 2)] == [2]
    assert again.row(A).events == 3
    again.acquire(A, Recorder())
    again.submit(A, message(3))
    again.close()


@contextmanager
def _place_of_somebody_without_rights() -> Iterator[Path]:
    """A directory that the user of AS_SOMEBODY owns; `tmp_path` is below one that only its owner may enter."""
    place = Path(tempfile.mkdtemp())
    try:
        yield place
    finally:
        for directory in (place, *(path for path in place.rglob("*") if path.is_dir())):
            directory.chmod(0o700)
        shutil.rmtree(place)


# Rights do not bind root, so a program that is root becomes somebody else first, with all it needs imported.
AS_SOMEBODY = """
import hashlib, engine.log.store.database, engine.log.store.locks, engine.log.store.writer
if os.geteuid() == 0:
    os.chown(path.parent, 65534, 65534)
    os.setgid(65534), os.setuid(65534)
store = SqliteStore(path, SystemClock())
digest = store.blob_put(b"content")
begun(store, A, events=3, text=digest)
store.close()
"""

READ_ONLY_FILE = """
path.chmod(0o400)
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
store.submit(A, message(3))
error = heard.wait_for_error()
say(type(error).__name__, "the database is read-only" in str(error))
try:
    store.submit(A, message(4))
except SessionReadOnlyError as refused:
    say("refused")
say(len(store.load(A)), len(store.rows()), store.blob_get(digest).decode(), heard.seqs, len(heard.errors))
store.close()
"""


READ_ONLY_DIRECTORY = """
path.parent.chmod(0o500)
(path.parent / "locks").chmod(0o500)
store = SqliteStore(path, SystemClock())
say(len(store.load(A)), len(store.rows()), store.blob_get(digest).decode())
for attempt in (lambda: store.acquire(A, Recorder()), lambda: store.create(row(B))):
    try:
        attempt()
    except StoreError as error:
        say(error)
store.close()
say(sorted(os.listdir(path.parent)))
new = SqliteStore(path.parent / "other.db", SystemClock())
try:
    new.rows()
except StoreError as error:
    say(error)
new.close()
"""


def test_without_permission_to_write_the_session_is_read_only() -> None:
    with _place_of_somebody_without_rights() as place:
        lines = outcome(AS_SOMEBODY + READ_ONLY_FILE, place / "sessions.db")
    assert lines == ["StoreError True", "refused", "3 1 content [] 1"]


def test_read_only_directory_can_be_read_but_not_acquired() -> None:
    with _place_of_somebody_without_rights() as place:
        read, *refused, left, new = outcome(AS_SOMEBODY + READ_ONLY_DIRECTORY, place / "sessions.db")
    assert read == "3 1 content"
    assert [line.endswith("make its directory writable, or free some space") for line in refused] == [True, True]
    assert left == "['locks', 'sessions.db']"
    assert "Permission denied; make its directory writable or choose another path" in new


def test_a_page_decodes_the_rows_of_the_page_alone(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        begun(sqlite, SessionId(f"ses_{number}"), events=1)
    decoded: list[str] = []
    monkeypatch.setattr(stored, "row_of", lambda values: decoded.append(values[0]) or row_of(values))
    page = sqlite.rows(limit=3)
    assert decoded == [row.session_id for row in page] == ["ses_19", "ses_18", "ses_17"]
    decoded.clear()
    sqlite.rows(after=(page[-1].updated_at, page[-1].session_id), limit=2)
    assert decoded == ["ses_16", "ses_15"]


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


def test_a_new_store_gets_every_version_and_no_copy(path: Path, tmp_path: Path) -> None:
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


def test_the_name_of_each_new_directory_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[str]] = []
    monkeypatch.setattr(database, "sync", lambda directory: synced.append(os.listdir(directory)))
    make_directory(str(tmp_path / "a" / "b"))
    assert synced == [["a"], ["b"]]
    make_directory(str(tmp_path / "a" / "b"))
    assert len(synced) == 2


@pytest.mark.parametrize(("free", "is_full"), [((1 << 15) - 1, True), (1 << 15, False), (None, False)])
def test_a_failure_without_room_for_an_index_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, is_full: bool
) -> None:
    def usage(path: str) -> SimpleNamespace:
        if free is None:
            raise FileNotFoundError(path)
        return SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    assert ("the disk is full" in explain(str(tmp_path / "sessions.db"), error)) == is_full
