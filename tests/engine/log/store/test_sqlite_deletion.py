"""Deleting from the SQLite store: kills in the middle, other processes, and space given back."""

from __future__ import annotations

import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from engine.core.errors import SessionInUseError, SessionNotFoundError, StoreError
from engine.core.ids import SessionId
from engine.log.store.database import Database
from engine.log.store.locks import owners
from engine.log.store.maintenance import batches
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow
from tests.support.archives import answered, kept
from tests.support.stores import PATIENCE, A, B, CountingClock, Recorder, begun, line, message, outcome, program, texts

# Makes, deletes and collects sessions for ever. Contents are few, so that they are shared, freed and wanted again.
CHURNER = """
import random
from tests.support.archives import kept
chance = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else os.getpid())
store = SqliteStore(path, SystemClock())
pool = [bytes([n]) * n * 700 for n in range(12)]
names = [SessionId(f"ses_{n}") for n in range(8)]
while True:
    name = chance.choice(names)
    try:
        if name in {row.session_id for row in store.rows()}:
            store.delete(name)
        else:
            kept(store, name, chance.choices(pool, k=chance.randint(1, 30)))
    except (SessionNotFoundError, SessionInUseError, InvalidRequestError):
        pass  # the other process was faster
    if chance.random() < 0.05:
        store.collect(0)
    say(name)
"""


def _consistent(path: Path) -> int:
    """Whether every event has a row, every row its events, and every content named is there and whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        unnamed = "SELECT count(*) FROM blobs WHERE digest NOT IN (SELECT digest FROM refs)"
        assert connection.execute(unnamed).fetchone()[0] == 0
        orphans = "SELECT count(*) FROM events WHERE session NOT IN (SELECT session FROM sessions)"
        assert connection.execute(orphans).fetchone()[0] == 0
    store = SqliteStore(path, CountingClock())
    for found in store.rows():
        events = store.load(found.session_id)
        assert [event.seq for event in events] == list(range(found.events))
        named = {event.result for event in events if event.kind == "effect_answered"}
        assert store.contents(found.session_id) == named
        for digest in named:
            store.blob_get(digest)
    count = len(store.rows())
    store.close()
    return count


def _kill_often(path: Path, kills: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown by pytest where the test fails
    chance = random.Random(seed)
    counts: set[int] = set()
    for _ in range(kills):
        with program(CHURNER, path) as one, program(CHURNER, path) as two:
            for _ in range(chance.randint(1, 60)):
                line(one.stdout)
            line(two.stdout)
            two.kill()
            one.kill()
            one.wait(PATIENCE)
            two.wait(PATIENCE)
        counts.add(_consistent(path))
    assert counts != {0}


@pytest.mark.slow
def test_processes_killed_while_they_delete_leave_a_consistent_store(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=2)


@pytest.mark.slow
def test_many_processes_killed_while_they_delete_leave_a_consistent_store(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=40)


def test_a_session_of_another_process_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with program(
        "store = SqliteStore(path, SystemClock()); begun(store, A, events=2); say('ready'); os.read(0, 1)", path
    ) as owner:
        line(owner.stdout)
        store = SqliteStore(path, CountingClock())
        kept(store, B)
        with pytest.raises(SessionInUseError, match=f"in use by process {owner.pid}"):
            store.delete(A)
        assert owners(str(path)) == {A: owner.pid}
        done = store.collect(1e12)
        assert (done.deleted, done.in_use) == ((B,), (A,))
        assert texts(store) == ["hello", "hello"]
        owner.kill()
        owner.wait(PATIENCE)
        assert owners(str(path)) == {}
        store.delete(A)
        assert store.rows() == []
        store.close()


def test_a_deletion_is_durable_when_it_returns(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    source = """
from tests.support.archives import kept
store = SqliteStore(path, SystemClock())
kept(store, A, [b"content"])
store.delete(A)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with program(source, path) as process:
        process.wait(PATIENCE)
    store = SqliteStore(path, CountingClock())
    with pytest.raises(SessionNotFoundError):
        store.row(A)
    store.close()


def test_space_is_given_back_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    kept(store, A, [random.randbytes(200_000) for _ in range(10)])
    heard = begun(store, B, events=1)
    done = store.collect(store.row(B).created_at)
    assert done.deleted == (A,)
    assert done.freed > 1_900_000
    assert sum(file.stat().st_size for file in tmp_path.glob("sessions.db*")) < 300_000
    assert heard.errors == []
    assert texts(store, B) == ["hello"]
    store.close()


def test_space_is_given_back_at_once_where_nobody_writes(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    kept(store, A, [random.randbytes(200_000) for _ in range(10)])
    kept(store, B, [b"stays"])
    assert store.collect(store.row(B).created_at).freed > 1_900_000
    assert sum(file.stat().st_size for file in tmp_path.glob("sessions.db*")) < 300_000
    (digest,) = store.contents(B)
    assert store.blob_get(digest) == b"stays"
    assert _consistent(path) == 1
    store.close()


@pytest.mark.slow
def test_a_deletion_without_room_or_rights_says_so_and_deletes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock(), busy_seconds=0.2)
    kept(store, A, [b"content"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for call in (lambda: store.delete(A), lambda: store.collect(1e12)):
            with pytest.raises(StoreError, match="another process kept it locked"):
                call()
    assert texts(store) == ["hello"]
    store.delete(A)
    store.close()


def test_two_that_delete_at_once_delete_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store, other = (SqliteStore(path, CountingClock()) for _ in range(2))
    for _ in range(5):
        kept(store, A, [b"content"])
        results: list[object] = []

        def delete(one: SqliteStore, results: list[object] = results) -> None:
            try:
                results.append(one.delete(A))
            except (SessionInUseError, SessionNotFoundError) as error:
                results.append(error)

        threads = [threading.Thread(target=delete, args=(one,)) for one in (store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sum(result is None for result in results) == 1
        assert store.rows() == []
    store.close()
    other.close()


def test_content_that_no_event_names_is_never_written(tmp_path: Path) -> None:
    source = """
store = SqliteStore(path, SystemClock())
store.blob_put(b"x" * 1000)
begun(store, A, events=3)
store.close()
import sqlite3
say(sqlite3.connect(path).execute("SELECT count(*) FROM blobs").fetchone()[0])
"""
    assert outcome(source, tmp_path / "sessions.db") == ["0"]


def test_a_session_that_was_used_since_it_was_listed_is_not_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = (SqliteStore(tmp_path / "sessions.db", CountingClock(start)) for start in (0, 5000))
    kept(store, A)
    listed = store.rows()
    heard = Recorder()
    other.acquire(A, heard)
    other.submit(A, message(1))
    heard.wait_for(1)
    other.release(A)
    monkeypatch.setattr(store, "rows", lambda: listed)
    done = store.collect(1000)
    assert (done.deleted, done.in_use) == ((), ())
    assert len(store.load(A)) == 2
    store.close()
    other.close()


def test_content_that_is_put_again_while_it_is_committed_outlives_the_first_who_named_it(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    a, b = begun(store, A, events=1), begun(store, B, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.submit(A, answered(1, store.blob_put(b"content")))
        digest = store.blob_put(b"content")
        other.execute("COMMIT")
    a.wait_for(1)
    store.release(A)
    store.delete(A)
    store.submit(B, answered(1, digest))
    b.wait_for(1)
    store.close()
    again = SqliteStore(path, CountingClock())
    assert again.blob_get(digest) == b"content"
    again.close()


def test_a_kill_in_the_middle_of_an_addition_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    source = """
from tests.support.archives import answered
def items():
    for seq in range(1000):
        yield message(seq, "x" * 1000)
    yield b"content" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)
SqliteStore(path, SystemClock()).add(row(A), items())
"""
    with program(source, path) as process:
        process.wait(PATIENCE)
    assert _consistent(path) == 0
    store = SqliteStore(path, CountingClock())
    kept(store, A, [b"content" * 100_000])
    store.close()
    assert _consistent(path) == 1


def test_sessions_are_collected_many_in_a_transaction_but_no_transaction_is_long() -> None:
    def rows(*events: int) -> list[SessionRow]:
        return [SessionRow(session_id=SessionId(str(n)), cwd="/", events=size) for n, size in enumerate(events)]

    assert [len(batch) for batch in batches(rows(*[10] * 450))] == [200, 200, 50]
    assert [len(batch) for batch in batches(rows(5_000, 5_000, 1, 300_000, 1, 1))] == [2, 1, 1, 2]
    assert list(batches([])) == []


def test_collecting_commits_for_each_batch_and_not_for_each_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    for number in range(30):
        kept(store, SessionId(f"ses_{number}"), [b"shared"])
    writing, transactions = Database.writing, list[str]()
    monkeypatch.setattr(Database, "writing", lambda self: transactions.append("begun") or writing(self))
    assert len(store.collect(1e12).deleted) == 30
    assert len(transactions) == 2  # all sessions in one, and then what nothing names
    assert _consistent(tmp_path / "sessions.db") == 0
    store.close()
