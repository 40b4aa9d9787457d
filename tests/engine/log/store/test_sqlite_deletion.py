"""The SQLite store: deleting sessions and dropping contents, and the space they give back."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engine.core.errors import SessionInUseError, SessionNotFoundError, StoreError
from engine.core.ids import SessionId
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.store.database import Database
from engine.log.store.locks import owners
from engine.log.store.maintenance import batches
from engine.log.store.schema import names_in
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow
from tests.support.archives import answered, dropped, is_there, kept, values_kept
from tests.support.stores import (
    PATIENCE,
    A,
    B,
    CountingClock,
    Gate,
    Recorder,
    begun,
    begun_with,
    line,
    message,
    outcome,
    program,
    texts,
)

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
def test_deletion_without_room_or_rights_deletes_nothing(tmp_path: Path) -> None:
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


def test_recently_used_session_is_not_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_content_put_again_outlives_its_first_session(tmp_path: Path) -> None:
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


def test_kill_during_an_import_leaves_nothing(tmp_path: Path) -> None:
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


def test_sessions_are_collected_in_bounded_batches() -> None:
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


# --- dropped contents -------------------------------------------------------------------------------------------------

# Keeps values and drops some for ever, in two sessions that share contents; a process that follows goes on with both.
KEEPER = """
import random
from tests.support.archives import answered, dropped, values_kept
chance = random.Random(os.getpid())
store = SqliteStore(path, SystemClock())
pool = [bytes([n]) * n * 700 for n in range(12)]
names = [SessionId("ses_0"), SessionId("ses_1")]
heard = {}
for name in names:
    heard[name] = Recorder()
    if name in {row.session_id for row in store.rows()}:
        store.acquire(name, heard[name])
    else:
        heard[name] = begun(store, name, events=1)
due = {name: store.row(name).events for name in names}
while True:
    name = chance.choice(names)
    for _ in range(chance.randint(1, 6)):
        seq = due[name]
        due[name] += 1
        what = chance.random()
        if what < 0.3:
            store.submit(name, dropped(seq, before=seq - chance.randint(0, 9)))
        else:
            digest = store.blob_put(chance.choice(pool))
            store.submit(name, answered(seq, digest) if what < 0.35 else values_kept(seq, digest))
    if chance.random() < 0.2:
        heard[name].wait_for(due[name] - 1)
        say(name)
"""


def still_kept(events: Sequence[Event]) -> set[str]:
    """What a session refers to after these events, by the rule and nothing else."""
    last: dict[str, int] = {}
    fixed: set[str] = set()
    for event in events:
        names = names_in(encode(event).decode())
        last.update(dict.fromkeys(names, event.seq))
        if not event.droppable:
            fixed.update(names)
        if event.dropped_before is not None:
            limit = event.dropped_before
            last = {name: seq for name, seq in last.items() if name in fixed or seq >= limit}
    return set(last)


def _check(path: Path) -> int:
    """The store is intact, and each session has what its log says and no more. Returns how much was dropped."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        unnamed = "SELECT count(*) FROM blobs WHERE digest NOT IN (SELECT digest FROM refs)"
        assert connection.execute(unnamed).fetchone()[0] == 0
    store = SqliteStore(path, CountingClock())
    gone = 0
    for found in store.rows():
        events = store.load(found.session_id)
        assert store.contents(found.session_id) == still_kept(events)
        for digest in store.contents(found.session_id):
            store.blob_get(digest)
        assert found.droppable_size == sum(kept.size for kept in store.droppable(found.session_id))
        assert found.size == found.contents_size + sum(len(encode(event)) for event in events)
        gone += sum(event.dropped_before is not None for event in events)
    store.close()
    return gone


def _kill_while_dropping(path: Path, kills: int) -> None:
    chance = random.Random()
    gone = 0
    for _ in range(kills):
        with program(KEEPER, path) as process:
            for _ in range(chance.randint(1, 12)):
                line(process.stdout)
            process.kill()
            process.wait(PATIENCE)
        gone = _check(path)
    assert gone


@pytest.mark.slow
def test_kill_while_dropping_leaves_a_consistent_store(tmp_path: Path) -> None:
    _kill_while_dropping(tmp_path / "sessions.db", kills=2)


@pytest.mark.slow
def test_many_killed_processes_leave_a_consistent_store(tmp_path: Path) -> None:
    _kill_while_dropping(tmp_path / "sessions.db", kills=60)


def test_what_one_commit_keeps_drops_and_keeps_again_is_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    other = begun(store, B)
    gate = begun_with(Gate(), store, A, events=1)
    again, gone = store.blob_put(b"again"), store.blob_put(b"gone")
    with gate.closed(store, A, 1):
        store.submit(A, values_kept(2, again, gone))
        store.submit(A, dropped(3, before=3))
        store.blob_put(b"again")
        store.submit(A, values_kept(4, again))
        store.submit(B, message(0))
    gate.wait_for(4)
    other.wait_for(0)
    assert gate.seqs[-2:] == [1, 4]
    assert store.blob_get(again) == b"again"
    assert not is_there(store, gone)
    store.close()
    _check(tmp_path / "sessions.db")


def test_what_one_session_drops_another_keeps_in_the_same_commit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db", CountingClock())
    other = begun(store, B)
    gate = begun_with(Gate(), store, A, events=1)
    digest = store.blob_put(b"value")
    store.submit(A, values_kept(1, digest))
    gate.wait_for(1)
    with gate.closed(store, A, 2):
        store.submit(A, dropped(3, before=3))
        store.blob_put(b"value")
        store.submit(B, values_kept(0, digest))
    gate.wait_for(3)
    other.wait_for(0)
    assert store.blob_get(digest) == b"value"
    assert (store.contents(A), store.contents(B)) == (frozenset(), {digest})
    store.close()
    _check(tmp_path / "sessions.db")


def test_dropping_keeps_the_file_from_growing(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store, events=1)
    for seq in range(1, 60, 2):
        store.submit(A, values_kept(seq, store.blob_put(os.urandom(200_000))))
        store.submit(A, dropped(seq + 1, before=seq))
        heard.wait_for(seq + 1)
    assert store.row(A).contents_size < 250_000
    store.close()
    assert path.stat().st_size < 2_000_000


@pytest.mark.slow
def test_the_space_of_what_was_dropped_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store, events=1)
    store.submit(A, values_kept(1, *(store.blob_put(os.urandom(200_000)) for _ in range(10))))
    store.submit(A, dropped(2, before=2))
    heard.wait_for(2)
    assert store.collect(0).freed > 1_900_000  # also while the session goes on
    store.submit(A, message(3))
    heard.wait_for(3)
    store.close()
    assert path.stat().st_size < 300_000


NO_ROOM = """
from tests.support.archives import dropped, values_kept
store = SqliteStore(path, SystemClock())
heard = begun(store, A, events=1)
digests = [store.blob_put(os.urandom(300_000)) for _ in range(20)]
for seq, digest in enumerate(digests, 1):
    store.submit(A, values_kept(seq, digest))
heard.wait_for(20)
store.close()
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
store.submit(A, dropped(21, before=20))
say(type(heard.wait_for_error()).__name__)
say(len(store.contents(A)), all(len(store.blob_get(digest)) == 300_000 for digest in digests), store.row(A).events)
try:
    store.submit(A, message(22))
except SessionReadOnlyError:
    say("refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.release(A)
again = Recorder()
store.acquire(A, again)
store.submit(A, dropped(21, before=20))
again.wait_for(21)
say(len(store.contents(A)))
store.close()
"""


def test_full_disk_drops_nothing_and_stays_readable(tmp_path: Path) -> None:
    lines = outcome(NO_ROOM, tmp_path / "sessions.db")
    assert lines == ["StoreError", "20 True 21", "refused", "1"]
    _check(tmp_path / "sessions.db")
