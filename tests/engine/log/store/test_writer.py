"""One owner per session between processes, and the thread that writes: what goes into one transaction."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from engine.core.errors import InvalidRequestError, SessionInUseError, StoreGoneError
from engine.core.ids import BlobDigest, SessionId
from engine.log.store.changes import Retitle
from engine.log.store.database import Database
from engine.log.store.group_commit import GroupCommit
from engine.log.store.locks import SessionLocks, owners
from engine.log.store.schema import MIGRATIONS
from engine.log.store.sqlite import SqliteStore
from engine.log.store.writable import WritableSession
from engine.log.store.writer import SqliteCommitter
from tests.support.archives import kept
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

OWNER = """
store = SqliteStore(path, SystemClock())
begun(store, A, events=2)
"""


def test_second_process_learns_the_owner_and_can_read(path: Path) -> None:
    with program(OWNER + "say(os.getpid()); sys.stdin.readline(); store.close(); say('closed')", path) as owner:
        pid = int(line(owner.stdout))
        store = SqliteStore(path, CountingClock())
        with pytest.raises(SessionInUseError, match=f"in use by process {pid}") as caught:
            store.acquire(A, Recorder())
        assert (caught.value.pid, caught.value.session_id) == (pid, A)
        assert texts(store) == ["hello", "hello"]
        assert [(found.session_id, found.events) for found in store.rows()] == [(A, 2)]
        begun(store, B, events=1)
        owner.stdin.write(b"\n")
        assert line(owner.stdout) == "closed"
        heard = Recorder()
        store.acquire(A, heard)
        store.submit(A, message(2))
        heard.wait_for(2)
        store.close()


# The child itself says that it runs, because a fork is over only when its hooks have run on that side too.
FORKED = """
if os.fork() == 0:
    say(os.getpid())
    os.read(0, 1)
    os._exit(0)
"""
SPAWNED = """
import subprocess
say(subprocess.Popen(["cat"], stdin=0, stdout=2, close_fds=False).pid)
"""


@pytest.mark.parametrize("child", [FORKED, SPAWNED], ids=["forked", "spawned"])
def test_a_child_that_outlives_the_owner_keeps_nobody_out(path: Path, child: str) -> None:
    with program(OWNER + child + "os.read(0, 1)", path) as owner:
        survivor = int(line(owner.stdout))
        owner.kill()
        owner.wait(PATIENCE)
        os.kill(survivor, 0)
        store = SqliteStore(path, CountingClock())
        heard = Recorder()
        store.acquire(A, heard)
        store.submit(A, message(2))
        heard.wait_for(2)
        os.kill(survivor, 0)
        store.close()


def test_a_child_that_ends_takes_no_lock_from_its_parent(path: Path) -> None:
    source = "child = os.fork()\nif child == 0:\n    os._exit(0)\nos.waitpid(child, 0); say('ready'); os.read(0, 1)"
    with program(OWNER + source, path) as owner:
        assert line(owner.stdout) == "ready"
        store = SqliteStore(path, CountingClock())
        with pytest.raises(SessionInUseError):
            store.acquire(A, Recorder())
        store.close()


def test_reading_the_lock_file_keeps_the_lock(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path, CountingClock())
    begun(store, events=1)
    for file in (tmp_path / "locks").iterdir():
        file.read_bytes()
    source = """
store = SqliteStore(path, SystemClock())
try:
    store.acquire(A, Recorder())
except SessionInUseError as error:
    say(error.pid)
"""
    assert outcome(source, path) == [str(os.getpid())]
    store.close()


def test_two_stores_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    first, second = (SqliteStore(tmp_path / "sessions.db", CountingClock()) for _ in range(2))
    begun(first, events=1)
    with pytest.raises(SessionInUseError) as caught:
        second.acquire(A, Recorder())
    assert caught.value.pid == os.getpid()
    first.release(A)
    second.acquire(A, Recorder())
    with pytest.raises(SessionInUseError):
        first.acquire(A, Recorder())
    first.close()
    second.close()


def test_racing_processes_create_a_session_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, faster = (SqliteStore(tmp_path / "sessions.db", CountingClock()) for _ in range(2))
    acquire = SessionLocks.acquire

    def late(locks: SessionLocks, session_id: SessionId) -> None:
        monkeypatch.undo()
        kept(faster)
        acquire(locks, session_id)

    monkeypatch.setattr(SessionLocks, "acquire", late)
    with pytest.raises(InvalidRequestError, match="already"):
        store.create(row(A))
    heard = Recorder()
    faster.acquire(A, heard)  # the lock was given back
    faster.submit(A, message(1))
    heard.wait_for(1)
    faster.close()
    store.close()


def test_two_databases_in_one_directory_do_not_share_locks(tmp_path: Path) -> None:
    one, other = (SqliteStore(tmp_path / name, CountingClock()) for name in ("one.db", "other.db"))
    begun(one, events=1)
    begun(other, events=1)
    one.close()
    other.close()


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff" * 100], ids=["empty", "text", "binary"])
def test_an_owner_that_cannot_be_read_is_called_another_process(tmp_path: Path, content: bytes) -> None:
    first, second = (SessionLocks(str(tmp_path / "sessions.db")) for _ in range(2))
    first.acquire(A)
    (tmp_path / "locks" / "sessions.db.ses_a.lock").write_bytes(content)
    with pytest.raises(SessionInUseError, match="in use by another process") as caught:
        second.acquire(A)
    assert caught.value.pid is None
    first.release(A)


@pytest.mark.slow
def test_one_of_many_racing_processes_gets_the_lock(tmp_path: Path) -> None:
    """Each process increments a number in a file, without any lock but ours; a lost update shows as a lower sum."""
    (tmp_path / "sum").write_text("0")
    source = f"""
from engine.log.store.locks import SessionLocks
locks, total = SessionLocks({str(tmp_path / "sessions.db")!r}), Path({str(tmp_path / "sum")!r})
had = 0
while had < 50:
    try:
        locks.acquire(A)
    except SessionInUseError:
        continue
    total.write_text(str(int(total.read_text()) + 1))
    locks.release(A)
    had += 1
say(had)
"""
    with program(source, tmp_path) as one, program(source, tmp_path) as two, program(source, tmp_path) as three:
        assert [line(process.stdout) for process in (one, two, three)] == ["50"] * 3
    assert (tmp_path / "sum").read_text() == "150"
    assert list((tmp_path / "locks").iterdir()) == []


def _locked_by_anybody(path: Path, session_id: SessionId) -> bool:
    other = SessionLocks(str(path))
    try:
        other.acquire(session_id)
    except SessionInUseError:
        return True
    other.release(session_id)
    return False


NAMES = [SessionId(f"ses_{number}") for number in range(6)]


def test_reading_who_has_a_session_leaves_no_descriptor(path: Path) -> None:
    locks, times = SessionLocks(str(path)), 20
    locks.acquire(A)
    before = psutil.Process().num_fds()
    for _ in range(times):
        assert owners(str(path)) == {A: os.getpid()}
    assert psutil.Process().num_fds() < before + times
    locks.release(A)


def test_brief_locks_share_a_file_and_release_separately(path: Path, tmp_path: Path) -> None:
    busy, locks = SessionLocks(str(path)), SessionLocks(str(path))
    busy.acquire(NAMES[2])
    assert locks.acquire_free(NAMES) == [name for name in NAMES if name != NAMES[2]]
    files = {name: (tmp_path / "locks" / f"sessions.db.{name}.lock").stat().st_ino for name in NAMES}
    assert len(set(files.values())) == 2  # a file for each would cost the file system 30 times as much
    assert all(_locked_by_anybody(path, name) for name in NAMES)
    held = set(NAMES)
    for name in (NAMES[0], NAMES[4], NAMES[1], NAMES[5], NAMES[3]):  # the one that made the file first
        locks.release(name)
        held.remove(name)
        assert {each for each in NAMES if _locked_by_anybody(path, each)} == held
    busy.release(NAMES[2])
    assert list((tmp_path / "locks").iterdir()) == []


def test_crashed_sessions_with_one_file_are_taken_over_separately(path: Path, tmp_path: Path) -> None:
    source = f"""
from engine.log.store.locks import SessionLocks
say(len(SessionLocks(str(path)).acquire_free({NAMES!r})))
os.kill(os.getpid(), signal.SIGKILL)
"""
    with program(source, path) as crashed:
        assert line(crashed.stdout) == str(len(NAMES))
        crashed.wait(PATIENCE)
    assert len(list((tmp_path / "locks").iterdir())) == len(NAMES)
    one, two = SessionLocks(str(path)), SessionLocks(str(path))
    one.acquire(NAMES[0])
    two.acquire(NAMES[1])
    assert _locked_by_anybody(path, NAMES[0])
    assert one.acquire_free(NAMES[2:]) == NAMES[2:]
    two.release(NAMES[1])
    for name in (NAMES[0], *NAMES[2:]):
        assert _locked_by_anybody(path, name)
        one.release(name)


def test_without_hard_links_each_session_gets_a_lock_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_names: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    locks = SessionLocks(str(path))
    assert locks.acquire_free(NAMES) == NAMES
    locks.release(NAMES[0])
    assert {name for name in NAMES if _locked_by_anybody(path, name)} == set(NAMES[1:])
    for name in NAMES:
        locks.release(name)


@contextmanager
def held_back(path: Path) -> Iterator[None]:
    """Keeps every writer of the database waiting meanwhile."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


def test_what_queued_up_meanwhile_is_one_commit(sqlite: SqliteStore) -> None:
    a, b = begun(sqlite, A, events=1), begun_with(Gate(), sqlite, B)
    with b.closed(sqlite, B, 0):
        for seq in range(1, 200):
            sqlite.submit(A, message(seq))
            sqlite.submit(B, message(seq))
    a.wait_for(199)
    b.wait_for(199)
    sqlite.close()
    assert a.seqs == b.seqs == [0, 199]


def test_what_waits_goes_into_the_commit_of_what_comes_next(sqlite: SqliteStore) -> None:
    a, b = begun(sqlite, A, events=1), begun(sqlite, B, events=1)
    for end in (3, 6):
        sqlite.submit(A, message(end - 2), waits=True)
        sqlite.submit(A, message(end - 1), waits=True)
        sqlite.submit(B, message(end // 3))  # whosever it is
        b.wait_for(end // 3)
        a.wait_for(end - 1)
        sqlite.submit(A, message(end), waits=True)
        sqlite.flush()
        a.wait_for(end)
    assert a.seqs == [0, 2, 3, 5, 6]


def test_a_change_that_waits_wakes_nobody(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "sessions.db"), 10.0, MIGRATIONS)
    writer = GroupCommit(SqliteCommitter(database))
    before = threading.active_count()
    writer.put(Retitle(WritableSession(A), None), waits=True)
    assert threading.active_count() == before  # the thread is started by the first that is queued
    writer.flush()
    assert threading.active_count() == before + 1
    writer.close()
    database.close()


@pytest.mark.parametrize("end", ["load", "release", "close"])
def test_waiting_events_are_read_and_released(path: Path, end: str) -> None:
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


def test_listeners_are_called_on_the_one_thread_that_writes(sqlite: SqliteStore) -> None:
    heard = [begun(sqlite, SessionId(f"ses_{number}"), events=5) for number in range(4)]
    threads = {thread for recorder in heard for thread in recorder.threads}
    assert len(threads) == 1
    assert threads != {threading.current_thread()}
    sqlite.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_listener_may_read_and_write(sqlite: SqliteStore) -> None:
    found: list[int] = []
    done = threading.Event()

    def echo(seq: int, _error: Exception | None) -> None:
        if seq < 3:
            sqlite.submit(A, message(seq + 1))
            sqlite.blob_put(b"content")
        found.append(len(sqlite.load(A)))
        if seq == 3:
            done.set()

    begun(sqlite, B)
    sqlite.create(row(A))
    sqlite.acquire(A, echo)
    sqlite.submit(A, message(0))
    assert done.wait(20)
    assert found == [1, 2, 3, 4]


def test_release_waits_for_what_was_submitted(sqlite: SqliteStore, path: Path, tmp_path: Path) -> None:
    heard = begun(sqlite, events=1)
    with held_back(path):
        for seq in range(1, 50):
            sqlite.submit(A, message(seq))
        releasing = threading.Thread(target=sqlite.release, args=(A,))
        releasing.start()
        assert (tmp_path / "locks" / "sessions.db.ses_a.lock").exists()
        assert heard.seqs == [0]
    releasing.join(20)
    assert heard.seqs[-1] == 49
    assert not (tmp_path / "locks" / "sessions.db.ses_a.lock").exists()


def test_content_is_never_later_than_the_event_that_names_it(path: Path) -> None:
    """Another reader looks after every commit, so a half-written pair would be seen."""
    store, other = (SqliteStore(path, CountingClock()) for _ in range(2))
    heard = begun(store, events=1, text=store.blob_put(b"first"))
    for seq in range(1, 100):
        store.submit(A, message(seq, store.blob_put(f"content {seq}".encode())))
        for text in texts(other):
            assert other.blob_get(BlobDigest(text))
    heard.wait_for(99)
    store.close()
    other.close()


def test_the_wal_is_checkpointed_when_nothing_is_to_do(sqlite: SqliteStore, path: Path) -> None:
    begun(sqlite, events=30)
    pause = threading.Event()  # because a checkpoint tells nobody
    for _ in range(400):
        # All of it is in the WAL before, and a page or none in the database itself.
        if path.stat().st_size > 4096:
            break
        pause.wait(PATIENCE / 400)
    else:
        raise AssertionError("no checkpoint came")
    assert len(sqlite.load(A)) == 30


def test_group_of_events_costs_few_sql_statements(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    connect = Database.connect

    def traced(database: Database) -> sqlite3.Connection:
        connection = connect(database)
        connection.set_trace_callback(lambda sql: statements.append(sql.split()[0]))
        return connection

    monkeypatch.setattr(Database, "connect", traced)
    gate = begun_with(Gate(), sqlite, A, events=1)
    with gate.closed(sqlite, A, 1):
        statements.clear()
        for seq in range(2, 18):
            sqlite.submit(A, message(seq))
    gate.wait_for(17)
    sqlite.close()
    assert statements[: 16 + 4] == ["BEGIN", "PRAGMA", *["INSERT"] * 16, "UPDATE", "COMMIT"]


def test_a_first_commit_makes_no_database_where_it_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    database = Database(str(path), 10.0, MIGRATIONS)
    path.unlink()
    with pytest.raises(StoreGoneError):
        SqliteCommitter(database).commit([], is_retry=False)
    assert not path.exists()
    database.close()
