"""The writer thread: what goes into one transaction, what waits for it, and what it does when nothing is to do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.core.ids import BlobDigest, SessionId
from engine.log.store.changes import Retitle
from engine.log.store.database import Database
from engine.log.store.schema import MIGRATIONS
from engine.log.store.sqlite import SqliteStore
from engine.log.store.writable import WritableSession
from engine.log.store.writer import Writer
from tests.support.stores import PATIENCE, A, B, CountingClock, Gate, Recorder, begun, begun_with, message, row, texts


@contextmanager
def held_back(path: Path) -> Iterator[None]:
    """Keeps every writer of the database waiting meanwhile."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


def test_what_queued_up_meanwhile_is_one_commit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    a, b = begun(store, A, events=1), begun_with(Gate(), store, B)
    with b.closed(store, B, 0):
        for seq in range(1, 200):
            store.submit(A, message(seq))
            store.submit(B, message(seq))
    a.wait_for(199)
    b.wait_for(199)
    store.close()
    assert a.seqs == b.seqs == [0, 199]


def test_what_waits_goes_into_the_commit_of_what_comes_next(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    a, b = begun(store, A, events=1), begun(store, B, events=1)
    for end in (3, 6):
        store.submit(A, message(end - 2), waits=True)
        store.submit(A, message(end - 1), waits=True)
        store.submit(B, message(end // 3))  # whosever it is
        b.wait_for(end // 3)
        a.wait_for(end - 1)
        store.submit(A, message(end), waits=True)
        store.flush()
        a.wait_for(end)
    assert a.seqs == [0, 2, 3, 5, 6]
    store.close()


def test_a_change_that_waits_wakes_nobody(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "sessions.db"), 10.0, MIGRATIONS)
    writer = Writer(database)
    before = threading.active_count()
    writer.put(Retitle(WritableSession(A), None), waits=True)
    assert threading.active_count() == before  # the thread is started by the first that is queued
    writer.flush()
    assert threading.active_count() == before + 1
    writer.close()
    database.close()


@pytest.mark.parametrize("end", ["load", "release", "close"])
def test_waiting_events_are_read_and_released(tmp_path: Path, end: str) -> None:
    path = tmp_path / "sessions.db"
    store, other = (SqliteStore(path, CountingClock()) for _ in range(2))
    store.create(row(A))
    store.acquire(A, Recorder())
    store.submit(A, message(0), waits=True)  # not even the session is stored by then
    if end == "load":
        assert len(store.load(A)) == 1
    elif end == "release":
        store.release(A)
    else:
        store.close()
    assert len(other.load(A)) == 1
    store.close()
    other.close()


def test_listeners_are_called_on_the_one_thread_that_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    heard = [begun(store, SessionId(f"ses_{number}"), events=5) for number in range(4)]
    threads = {thread for recorder in heard for thread in recorder.threads}
    assert len(threads) == 1
    assert threads != {threading.current_thread()}
    store.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_listener_may_read_and_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    found: list[int] = []
    done = threading.Event()

    def echo(seq: int, _error: Exception | None) -> None:
        if seq < 3:
            store.submit(A, message(seq + 1))
            store.blob_put(b"content")
        found.append(len(store.load(A)))
        if seq == 3:
            done.set()

    begun(store, B)
    store.create(row(A))
    store.acquire(A, echo)
    store.submit(A, message(0))
    assert done.wait(20)
    assert found == [1, 2, 3, 4]
    store.close()


def test_release_waits_for_what_was_submitted(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store, events=1)
    with held_back(path):
        for seq in range(1, 50):
            store.submit(A, message(seq))
        releasing = threading.Thread(target=store.release, args=(A,))
        releasing.start()
        assert (tmp_path / "locks" / "sessions.db.ses_a.lock").exists()
        assert heard.seqs == [0]
    releasing.join(20)
    assert heard.seqs[-1] == 49
    assert not (tmp_path / "locks" / "sessions.db.ses_a.lock").exists()
    store.close()


def test_content_is_never_later_than_the_event_that_names_it(tmp_path: Path) -> None:
    """Another reader looks after every commit, so a half-written pair would be seen."""
    path = tmp_path / "sessions.db"
    store, other = (SqliteStore(path, CountingClock()) for _ in range(2))
    heard = begun(store, events=1, text=store.blob_put(b"first"))
    for seq in range(1, 100):
        store.submit(A, message(seq, store.blob_put(f"content {seq}".encode())))
        for text in texts(other):
            assert other.blob_get(BlobDigest(text))
    heard.wait_for(99)
    store.close()
    other.close()


def test_the_same_content_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    for session_id in (A, B):
        store = SqliteStore(path, CountingClock())
        for _ in range(3):
            digest = store.blob_put(b"a" * 100_000)
        begun(store, session_id, events=1, text=digest)
        store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*), max(size), max(length(data)) < 1000 FROM blobs").fetchone() == (
            1,
            100_000,
            1,
        )


def test_the_wal_is_checkpointed_when_nothing_is_to_do(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    begun(store, events=30)
    pause = threading.Event()  # because a checkpoint tells nobody
    for _ in range(400):
        # All of it is in the WAL before, and a page or none in the database itself.
        if path.stat().st_size > 4096:
            break
        pause.wait(PATIENCE / 400)
    else:
        raise AssertionError("no checkpoint came")
    assert len(store.load(A)) == 30
    store.close()


def test_group_of_events_costs_few_sql_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    connect = Database.connect

    def traced(database: Database) -> sqlite3.Connection:
        connection = connect(database)
        connection.set_trace_callback(lambda sql: statements.append(sql.split()[0]))
        return connection

    monkeypatch.setattr(Database, "connect", traced)
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    gate = begun_with(Gate(), store, A, events=1)
    with gate.closed(store, A, 1):
        statements.clear()
        for seq in range(2, 18):
            store.submit(A, message(seq))
    gate.wait_for(17)
    store.close()
    assert statements[: 16 + 4] == ["BEGIN", "PRAGMA", *["INSERT"] * 16, "UPDATE", "COMMIT"]
