"""The SQLite store under failures, other processes and crashes; deletions, and the space that they give back."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engine.core.errors import (
    SessionInUseError,
    SessionNotFoundError,
    SessionReadOnlyError,
    StoreBusyError,
    StoreError,
    StoreGoneError,
)
from engine.core.ids import BlobDigest, SessionId
from engine.log.events.conversation import UserMessage
from engine.log.store import database
from engine.log.store.database import Database
from engine.log.store.locks import owners
from engine.log.store.maintenance import batches
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow
from tests.support.archives import dropped, is_there, kept, values_kept
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
    row,
    texts,
)

# Says what became of session A, which is to fail, and of B, which is to go on. The changes of both go into one
# transaction.
DISK_FULL = """
store = SqliteStore(path, SystemClock())
a, b = begun(store, A, events=3), begun_with(Gate(), store, B, events=2)
limit_room()
large = os.urandom(3_000_000)
with b.closed(store, B, 2):
    store.submit(A, message(3, large.hex()))
    store.submit(A, message(4))
    store.submit(B, message(3, "small"))
error = a.wait_for_error()
b.wait_for(3)
say("error", type(error).__name__, error)
try:
    store.submit(A, message(5))
except SessionReadOnlyError as refused:
    say("refused", refused.session_id)
digest = store.blob_put(large)
say("content", store.blob_get(digest) == large)
store.submit(B, message(4, "after content that found no room"))
b.wait_for(4)
say("heard", a.seqs[-1], len(a.errors), b.seqs[-1], len(b.errors))
say("loaded", len(store.load(A)), len(store.load(B)), store.row(A).events, store.row(B).events, len(store.rows()))
give_room()
store.submit(B, message(5, digest))
b.wait_for(5)
store.release(A)
again = Recorder()
store.acquire(A, again)
store.submit(A, message(3, "room again"))
again.wait_for(3)
store.close()
store = SqliteStore(path, SystemClock())
say("kept", texts(store, A)[-1], len(texts(store, B)), store.blob_get(digest) == large)
store.close()
"""

FILE_SIZE_LIMIT = """
def limit_room():
    largest = max(file.stat().st_size for file in path.parent.glob(path.name + "*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 200_000, resource.RLIM_INFINITY))

def give_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


EXPECTED = ["refused ses_a", "content True", "heard 2 1 4 0", "loaded 3 5 3 5 2", "kept room again 6 True"]


def test_file_size_limit_stops_only_one_session(tmp_path: Path) -> None:
    error, *lines = outcome(FILE_SIZE_LIMIT + DISK_FULL, tmp_path / "sessions.db")
    assert error.startswith("error StoreError")
    assert "the disk failed or a size limit was hit" in error
    assert lines == EXPECTED


def _damage_index_of(path: Path, session_id: SessionId) -> None:
    """Overwrites the leaf pages of the index on events that hold entries of the session."""
    size, index_leaf = 4096, 0x0A
    data = path.read_bytes()
    pages = [data[start : start + size] for start in range(0, len(data), size)]
    name = session_id.encode()
    damaged = [n for n, page in enumerate(pages) if page[0] == index_leaf and name in page and b"/work" not in page]
    assert damaged
    with path.open("r+b") as file:
        for number in damaged:
            file.seek(number * size)
            file.write(b"\xff" * size)


def test_a_damaged_page_stops_only_the_session_that_needs_it(sqlite: SqliteStore, path: Path) -> None:
    far = SessionId("ses_z")
    for session_id, events in ((A, 100), (SessionId("ses_m"), 600), (far, 100)):
        begun(sqlite, session_id, events)
    sqlite.close()
    _damage_index_of(path, A)
    again = SqliteStore(path, CountingClock())
    a, z = Recorder(), Recorder()
    again.acquire(A, a)
    again.acquire(far, z)
    again.submit(A, message(100))
    assert "the database is damaged; restore it from a copy" in str(a.wait_for_error())
    again.submit(far, message(100))
    z.wait_for(100)
    with pytest.raises(SessionReadOnlyError, match="damaged"):
        again.submit(A, message(101))
    with pytest.raises(StoreError, match="damaged"):
        again.load(A)
    assert (again.row(A).events, len(again.load(far)), len(again.rows())) == (100, 101, 3)
    again.close()
    assert (a.seqs, len(a.errors)) == ([], 1)


@pytest.mark.slow
def test_blocked_changes_are_given_up_with_their_session(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(path, CountingClock(), busy_seconds=0.2)
    a, b = begun(store, A, events=1), begun(store, B, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.submit(A, message(1))
        store.submit(B, message(1))
        a.wait_for_error()
        b.wait_for_error()
        store.release(A)
    b.wait_until(1)
    assert (len(store.load(A)), len(store.load(B))) == (1, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "the last events of session ses_a were not saved, because the store took none"
    ]
    store.close()


@pytest.mark.parametrize("gone", ["removed", "replaced", "wal removed", "wal replaced"])
def test_commit_to_a_lost_file_does_not_count(sqlite: SqliteStore, path: Path, tmp_path: Path, gone: str) -> None:
    a, b = begun(sqlite, A, events=1), begun(sqlite, B, events=1)
    what = tmp_path / ("sessions.db-wal" if gone.startswith("wal") else "sessions.db")
    copy = what.read_bytes()
    what.unlink()
    if gone.endswith("replaced"):
        what.write_bytes(copy)
    sqlite.submit(A, message(1))
    error = a.wait_for_error()
    assert isinstance(error, StoreGoneError)
    assert f"{what.name} was removed or replaced during use, so nothing more is saved" in str(error)
    sqlite.submit(B, message(1))
    assert isinstance(b.wait_for_error(), StoreGoneError)
    with pytest.raises(SessionReadOnlyError, match="removed or replaced"):
        sqlite.submit(A, message(2))
    assert (a.seqs, b.seqs) == ([0], [0])
    if what == path:
        with pytest.raises(StoreGoneError):
            sqlite.rows()
        assert path.exists() == (gone == "replaced")  # nothing has made a new one


def test_a_short_lock_delays_a_commit_and_nothing_more(sqlite: SqliteStore, path: Path) -> None:
    heard = begun(sqlite, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        sqlite.submit(A, message(1))
        assert heard.seqs == [0]
        other.execute("COMMIT")
        heard.wait_for(1)


def test_removed_row_stops_the_session_without_orphans(sqlite: SqliteStore, path: Path) -> None:
    heard = begun(sqlite, events=1)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA foreign_keys=ON")
        other.execute("DELETE FROM sessions")
    sqlite.submit(A, message(1))
    assert "FOREIGN KEY" in str(heard.wait_for_error())
    with pytest.raises(SessionNotFoundError):
        sqlite.row(A)
    sqlite.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM events").fetchone()[0] == 0


def test_early_failure_is_reported_to_the_first_listener(sqlite: SqliteStore, path: Path) -> None:
    begun(sqlite, B, events=1)
    sqlite.create(row())
    path.unlink()
    sqlite.submit(A, message(0))
    sqlite.retitle(A, "neither")
    sqlite.release(B)  # which waits for all that was submitted before
    with pytest.raises(SessionReadOnlyError, match="removed or replaced"):
        sqlite.acquire(A, Recorder())
    with pytest.raises(SessionReadOnlyError):
        sqlite.retitle(A, "nor this")


def test_events_queued_under_a_lock_are_written_in_order(path: Path) -> None:
    """The lock goes away with the first error, while more is submitted."""
    store = SqliteStore(path, CountingClock(), busy_seconds=0.3)
    begun(store, events=1)
    store.release(A)
    errors: list[Exception | None] = []
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        unlocked = threading.Event()

        def unlock(_seq: int, error: Exception | None) -> None:
            errors.append(error)
            if not unlocked.is_set():
                other.execute("ROLLBACK")
                unlocked.set()

        store.acquire(A, unlock)
        other.execute("BEGIN IMMEDIATE")
        seq = 1
        while not unlocked.is_set():
            store.submit(A, message(seq))
            seq += 1
            unlocked.wait(0.005)
        store.submit(A, message(seq))
        store.release(A)
    assert [event.seq for event in store.load(A)] == list(range(seq + 1))
    assert [type(error) for error in errors if error is not None] == [StoreBusyError]
    store.close()


# Continues session A where the last process was killed: bursts of events, every third naming content put before it.
APPENDER = """
import random
chance = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
store = SqliteStore(path, SystemClock())
try:
    store.acquire(A, lambda seq, error: say(seq if error is None else error))
    seq = store.row(A).events
except SessionNotFoundError:
    store.create(row(A))
    store.acquire(A, lambda seq, error: say(seq if error is None else error))
    seq = 0
while True:
    for _ in range(chance.randint(1, 20)):
        text = store.blob_put(os.urandom(chance.randint(0, 9000))) if seq % 3 == 0 else "x" * chance.randint(0, 2000)
        store.submit(A, message(seq, text))
        seq += 1
    if chance.random() < 0.3:
        store.load(A, seq)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_no_reported_event_is_lost_to_a_kill(path: Path, kills: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown by pytest where the test fails
    chance = random.Random(seed)
    reported = checked = -1
    for _ in range(kills):
        with program(APPENDER, path) as process:
            for _ in range(chance.randint(1, 40)):
                reported = int(line(process.stdout))
            process.kill()
            rest = process.stdout.read() if process.stdout is not None else b""
            process.wait(PATIENCE)
        complete = rest[: rest.rfind(b"\n") + 1].split()
        reported = int(complete[-1]) if complete else reported
        checked = _check(path, reported, checked)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def _check(path: Path, reported: int, checked: int) -> int:
    """Whether all is there; the content of events up to `checked` was looked at before. Returns the last position."""
    store = SqliteStore(path, CountingClock())
    events = store.load(A)
    assert [event.seq for event in events] == list(range(len(events)))
    assert len(events) > reported
    assert store.row(A).events == len(events)
    for event in events[checked + 1 :]:
        assert isinstance(event, UserMessage)
        if event.text.startswith("blake2b-"):
            store.blob_get(BlobDigest(event.text))
    store.close()
    return len(events) - 1


def test_processes_that_create_one_database_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state" / "sessions.db"
    names = [SessionId(f"ses_{number}") for number in range(3)]
    source = """
name = SessionId(sys.stdin.readline().strip())
store = SqliteStore(path, SystemClock())
heard = begun(store, name)
for seq in range(80):
    store.blob_put(str(seq).encode())
    store.submit(name, message(seq, str(seq)))
    if seq % 7 == 0:
        heard.wait_for(seq)
store.close()
say(heard.seqs[-1], len(heard.errors))
"""
    with ExitStack() as stack:
        processes = [stack.enter_context(program(source, path)) for _ in names]
        for process, name in zip(processes, names, strict=True):
            process.stdin.write(f"{name}\n".encode())
        assert [line(process.stdout) for process in processes] == ["79 0"] * len(names)
    store = SqliteStore(path, CountingClock())
    for name in names:
        assert texts(store, name) == [str(seq) for seq in range(80)]
    assert {found.events for found in store.rows()} == {80}
    store.close()


def test_a_database_that_another_process_fills_meanwhile_is_a_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_new = database._is_new  # pyright: ignore[reportPrivateUsage]

    def late(connection: sqlite3.Connection) -> bool:
        monkeypatch.undo()
        filled(path)
        return is_new(connection)

    monkeypatch.setattr(database, "_is_new", late)
    store = SqliteStore(path, CountingClock())
    assert texts(store, A) == ["0"]
    store.close()


def filled(path: Path) -> None:
    store = SqliteStore(path, CountingClock())
    heard = begun(store, A)
    store.submit(A, message(0, "0"))
    heard.wait_for(0)
    store.close()


def test_uncommitted_events_are_neither_kept_nor_reported(path: Path) -> None:
    """The process ends at once, with a transaction that another connection holds back."""
    source = """
import sqlite3
store = SqliteStore(path, SystemClock())
heard = begun(store, A, events=3)
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
for seq in range(3, 100):
    store.submit(A, message(seq))
say(heard.seqs[-1])
os._exit(0)
"""
    assert outcome(source, path) == ["2"]
    store = SqliteStore(path, CountingClock())
    assert len(store.load(A)) == 3
    store.close()


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


@pytest.mark.slow
def test_kills_during_deletions_leave_a_consistent_store(path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown by pytest where the test fails
    chance = random.Random(seed)
    counts: set[int] = set()
    for _ in range(40):
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


def test_a_session_of_another_process_is_not_deleted(path: Path) -> None:
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


def test_space_is_given_back_while_others_write(sqlite: SqliteStore, tmp_path: Path) -> None:
    kept(sqlite, A, [random.randbytes(200_000) for _ in range(10)])
    heard = begun(sqlite, B, events=1)
    done = sqlite.collect(sqlite.row(B).created_at)
    assert done.deleted == (A,)
    assert done.freed > 1_900_000
    assert sum(file.stat().st_size for file in tmp_path.glob("sessions.db*")) < 300_000
    assert heard.errors == []
    assert texts(sqlite, B) == ["hello"]


def test_space_is_given_back_at_once_where_nobody_writes(sqlite: SqliteStore, path: Path, tmp_path: Path) -> None:
    kept(sqlite, A, [random.randbytes(200_000) for _ in range(10)])
    kept(sqlite, B, [b"stays"])
    assert sqlite.collect(sqlite.row(B).created_at).freed > 1_900_000
    assert sum(file.stat().st_size for file in tmp_path.glob("sessions.db*")) < 300_000
    (digest,) = sqlite.contents(B)
    assert sqlite.blob_get(digest) == b"stays"
    assert _consistent(path) == 1


@pytest.mark.slow
def test_deletion_without_room_or_rights_deletes_nothing(path: Path) -> None:
    store = SqliteStore(path, CountingClock(), busy_seconds=0.2)
    kept(store, A, [b"content"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for call in (lambda: store.delete(A), lambda: store.collect(1e12)):
            with pytest.raises(StoreError, match="another process kept the database locked"):
                call()
    assert texts(store) == ["hello"]
    store.delete(A)
    store.close()


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


def test_kill_during_an_import_leaves_nothing(path: Path) -> None:
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
    sqlite: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        kept(sqlite, SessionId(f"ses_{number}"), [b"shared"])
    writing, transactions = Database.writing, list[str]()
    monkeypatch.setattr(Database, "writing", lambda self: transactions.append("begun") or writing(self))
    assert len(sqlite.collect(1e12).deleted) == 30
    assert len(transactions) == 2  # all sessions in one, and then what nothing names
    assert _consistent(tmp_path / "sessions.db") == 0


def test_what_one_commit_keeps_drops_and_keeps_again_is_there(sqlite: SqliteStore, tmp_path: Path) -> None:
    other = begun(sqlite, B)
    gate = begun_with(Gate(), sqlite, A, events=1)
    again, gone = sqlite.blob_put(b"again"), sqlite.blob_put(b"gone")
    with gate.closed(sqlite, A, 1):
        sqlite.submit(A, values_kept(2, again, gone))
        sqlite.submit(A, dropped(3, before=3))
        sqlite.blob_put(b"again")
        sqlite.submit(A, values_kept(4, again))
        sqlite.submit(B, message(0))
    gate.wait_for(4)
    other.wait_for(0)
    assert gate.seqs[-2:] == [1, 4]
    assert sqlite.blob_get(again) == b"again"
    assert not is_there(sqlite, gone)
    sqlite.close()


def test_dropping_keeps_the_file_from_growing(sqlite: SqliteStore, path: Path) -> None:
    heard = begun(sqlite, events=1)
    for seq in range(1, 60, 2):
        sqlite.submit(A, values_kept(seq, sqlite.blob_put(os.urandom(200_000))))
        sqlite.submit(A, dropped(seq + 1, before=seq))
        heard.wait_for(seq + 1)
    assert sqlite.row(A).contents_size < 250_000
    sqlite.close()
    assert path.stat().st_size < 2_000_000
