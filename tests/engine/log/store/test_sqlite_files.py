"""Where the SQLite store keeps things: modes, paths, strangers' files, and what starting up costs."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.errors import StoreError
from engine.log.store.database import Database
from engine.log.store.schema import APPLICATION_ID, MIGRATIONS
from engine.log.store.sqlite import SqliteStore
from tests.support.stores import ROOT, A, CountingClock, Recorder, begun, message, outcome, texts


def modes(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): stat.S_IMODE(path.stat().st_mode) for path in top.rglob("*")}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_anything_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "made" / "for" / "us" / "sessions.db"
    store = SqliteStore(path, CountingClock())
    before = os.umask(umask)
    try:
        begun(store, events=1)
        found = modes(tmp_path)
    finally:
        os.umask(before)
    store.close()
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


def test_rights_that_others_got_are_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.touch(0o666)
    path.chmod(0o666)
    store = SqliteStore(path, CountingClock())
    begun(store, events=1)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("sessions.db*")} == {0o600}
    store.close()


def test_nothing_is_left_behind_but_the_database(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    begun(store, events=1)
    store.close()
    assert sorted(modes(tmp_path)) == ["locks", "sessions.db"]


@pytest.mark.parametrize("name", [b"caf\xe9 \xff%20?#.db", "ses ü.db".encode(), b":memory:", b"file:x?mode=memory"])
def test_a_path_may_be_any_bytes(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name[:5] + b".d") / os.fsdecode(name)
    store = SqliteStore(path, CountingClock())
    begun(store, events=2)
    store.close()
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


def _no_database(path: Path) -> None:
    path.write_bytes(b"this is somebody's text, and more than a page of it. " * 200)


def _short_text(path: Path) -> None:
    path.write_text("short")


def _foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def _a_directory(path: Path) -> None:
    path.mkdir()


def _below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("a file")


@pytest.mark.parametrize("prepare", [_no_database, _short_text, _foreign_database, _a_directory, _below_a_file])
def test_what_is_no_store_is_refused_with_advice_and_left_alone(
    tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    path = tmp_path / "state" / "sessions.db"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    store = SqliteStore(path, CountingClock())
    for _ in range(2):
        with pytest.raises(StoreError, match=r"(move it away|make its directory writable) or choose another path"):
            store.rows()
    store.close()
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.touch()
    store = SqliteStore(path, CountingClock())
    assert store.rows() == []
    store.close()
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
    assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.close()
    database.close()


def test_sqlite_is_imported_when_the_store_is_first_used() -> None:
    source = (
        "import sys; from pathlib import Path; before = set(sys.modules)\n"
        "import engine.log.store; print(sorted(set(sys.modules) - before))\n"
        "from engine.core.clock import SystemClock\n"
        "store = engine.log.store.open_store(Path(sys.argv[1]), SystemClock())\n"
        "print([name for name in ('sqlite3', '_sqlite3', 'hashlib', 'fcntl') if name in set(sys.modules) - before])"
    )
    command = [sys.executable, "-c", source, "/nonexistent"]
    first, second = subprocess.check_output(command, text=True, cwd=ROOT, timeout=60).splitlines()
    assert "engine.log.store.sqlite" not in first
    assert second == "[]"


def test_the_thread_starts_with_the_first_write_and_keeps_no_process_alive(tmp_path: Path) -> None:
    source = """
store = SqliteStore(path, SystemClock())
store.rows()
store.create(row())
say(threading.active_count())
heard = Recorder()
store.acquire(A, heard)
for seq in range(3):
    store.submit(A, message(seq))
heard.wait_for(2)
say(threading.active_count())
"""
    assert outcome(source, tmp_path / "sessions.db") == ["1", "2"]


def test_close_commits_everything_first(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store)
    for seq in range(500):
        store.submit(A, message(seq))
    digest = store.blob_put(b"the last thing put")
    store.submit(A, message(500, digest))
    store.close()
    assert heard.seqs[-1] == 500
    again = SqliteStore(path, CountingClock())
    assert len(again.load(A)) == 501
    assert again.blob_get(digest) == b"the last thing put"
    again.close()


def test_a_store_that_was_never_used_closes_without_touching_the_disk(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "state" / "sessions.db", CountingClock()).close()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    begun(store, events=3)
    store.close()
    assert (set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()) <= before


def test_content_that_was_damaged_on_disk_is_not_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    digest, other = store.blob_put(b"one thing"), store.blob_put(b"another thing")
    begun(store, events=1, text=f"{digest} {other}")
    store.close()
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


def test_an_event_of_a_later_version_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    begun(store, events=3)
    store.close()
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
