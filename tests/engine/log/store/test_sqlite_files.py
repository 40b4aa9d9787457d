"""The SQLite store's files: creation, recognition, permissions, damage, pages of sessions."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.core.errors import StoreError
from engine.core.ids import SessionId
from engine.log.store import stored
from engine.log.store.database import Database
from engine.log.store.schema import APPLICATION_ID, MIGRATIONS
from engine.log.store.sqlite import SqliteStore
from engine.log.store.stored import row_of
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
def test_foreign_file_is_refused_and_left_alone(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
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


def test_thread_starts_with_the_first_write_as_daemon(tmp_path: Path) -> None:
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


def test_unused_store_closes_without_touching_the_disk(tmp_path: Path) -> None:
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


def test_event_of_a_later_version_is_named(tmp_path: Path) -> None:
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


# --- permissions ------------------------------------------------------------------------------------------------------


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
say(type(error).__name__, "it may not be written" in str(error))
try:
    store.submit(A, message(4))
except SessionReadOnlyError as refused:
    say("refused")
say(len(store.load(A)), len(store.rows()), store.blob_get(digest).decode(), heard.seqs, len(heard.errors))
store.close()
"""

READ_ONLY_DROP = """
from tests.support.archives import dropped, values_kept
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
value = store.blob_put(b"value")
store.submit(A, values_kept(3, value))
heard.wait_for(3)
store.close()
path.chmod(0o400)
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
store.submit(A, dropped(4, before=4))
say("it may not be written" in str(heard.wait_for_error()))
say(store.blob_get(value).decode(), store.contents(A) == {value, digest}, len(store.droppable(A)))
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


def test_without_permission_to_write_nothing_is_dropped() -> None:
    with _place_of_somebody_without_rights() as place:
        lines = outcome(AS_SOMEBODY + READ_ONLY_DROP, place / "sessions.db")
    assert lines == ["True", "value True 1"]


def test_read_only_directory_can_be_read_but_not_acquired() -> None:
    with _place_of_somebody_without_rights() as place:
        read, *refused, left, new = outcome(AS_SOMEBODY + READ_ONLY_DIRECTORY, place / "sessions.db")
    assert read == "3 1 content"
    assert [line.endswith("make its directory writable, or free some space") for line in refused] == [True, True]
    assert left == "['locks', 'sessions.db']"
    assert "Permission denied; make its directory writable or choose another path" in new


# --- pages of sessions ------------------------------------------------------------------------------------------------


def test_a_page_decodes_the_rows_of_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    for number in range(20):
        begun(store, SessionId(f"ses_{number}"), events=1)
    decoded: list[str] = []
    monkeypatch.setattr(stored, "row_of", lambda values: decoded.append(values[0]) or row_of(values))
    page = store.rows(limit=3)
    assert decoded == [row.session_id for row in page] == ["ses_19", "ses_18", "ses_17"]
    decoded.clear()
    store.rows(after=(page[-1].updated_at, page[-1].session_id), limit=2)
    assert decoded == ["ses_16", "ses_15"]
    store.close()
