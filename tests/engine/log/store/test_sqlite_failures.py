"""The SQLite store under failures of the disk, other processes, and crashes."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engine.core.errors import SessionNotFoundError, SessionReadOnlyError, StoreBusyError, StoreError, StoreGoneError
from engine.core.ids import BlobDigest, SessionId
from engine.log.events.conversation import UserMessage
from engine.log.store.sqlite import SqliteStore
from tests.support.stores import (
    PATIENCE,
    PRELUDE,
    A,
    B,
    CountingClock,
    Recorder,
    begun,
    environment,
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

SMALL_DISK = """
def limit_room():
    assert os.statvfs(path.parent).f_blocks * os.statvfs(path.parent).f_frsize <= 2 << 20

def give_room():
    import subprocess
    subprocess.run(["mount", "-o", "remount,size=64m", str(path.parent)], check=True)
"""

EXPECTED = [
    "refused ses_a",
    "content True",
    "heard 2 1 4 0",
    "loaded 3 5 3 5 2",
    "kept room again 6 True",
]


def test_file_size_limit_stops_only_one_session(tmp_path: Path) -> None:
    error, *lines = outcome(FILE_SIZE_LIMIT + DISK_FULL, tmp_path / "sessions.db")
    assert error.startswith("error StoreError")
    assert "the disk failed or a size limit was hit" in error
    assert lines == EXPECTED


def _can_mount() -> bool:
    probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(probe, check=False, capture_output=True).returncode == 0
    )


def test_full_disk_stops_only_one_session(tmp_path: Path) -> None:
    if not _can_mount():  # without the right to mount, the limit above is the disk that is full
        test_file_size_limit_stops_only_one_session(tmp_path)
        return
    script = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -B -c "$3"'
    source = PRELUDE + SMALL_DISK + DISK_FULL
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, source]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(tmp_path / "sessions.db"), timeout=60
    )
    assert done.returncode == 0, done.stderr
    error, *lines = done.stdout.splitlines()
    assert "the disk is full; free some space" in error
    assert lines == EXPECTED


# Reads a store that was closed, on a disk that has no byte left.
OPENED_WITHOUT_ROOM = """
store = SqliteStore(path, SystemClock())
begun(store, A, events=3)
store.close()
with suppress(OSError), open(path.with_name("filling"), "wb", buffering=0) as filling:
    while filling.write(bytes(1 << 12)):
        pass
try:
    SqliteStore(path, SystemClock()).rows()
except StoreError as error:
    say(error)
"""


@pytest.mark.slow
def test_unreadable_store_on_a_full_disk_reports_that(tmp_path: Path) -> None:
    if not _can_mount():
        return
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -B -c "$3"'
    source = f"{PRELUDE}from contextlib import suppress\n{OPENED_WITHOUT_ROOM}"
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, source]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(tmp_path / "sessions.db"), timeout=60
    )
    assert "the disk is full; free some space" in done.stdout, done


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


def test_a_damaged_page_stops_only_the_session_that_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    far = SessionId("ses_z")
    store = SqliteStore(path, CountingClock())
    for session_id, events in ((A, 100), (SessionId("ses_m"), 600), (far, 100)):
        begun(store, session_id, events)
    store.close()
    _damage_index_of(path, A)
    again = SqliteStore(path, CountingClock())
    a, z = Recorder(), Recorder()
    again.acquire(A, a)
    again.acquire(far, z)
    again.submit(A, message(100))
    assert "it is damaged; restore it from a copy" in str(a.wait_for_error())
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
def test_hanging_writer_delays_a_commit_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock(), busy_seconds=0.2)
    heard = begun(store, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.submit(A, message(1))
        error = heard.wait_for_error()
        assert isinstance(error, StoreBusyError)
        assert "another process kept it locked" in str(error)
        store.submit(A, message(2, "meanwhile"))
        assert texts(store) == ["hello"]
        heard.errors.clear()
        other.execute("ROLLBACK")
        heard.wait_until(2)
    assert texts(store) == ["hello", "hello", "meanwhile"]
    store.close()


@pytest.mark.slow
def test_blocked_changes_are_given_up_with_their_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "sessions.db"
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
        "the end of session ses_a was not kept: another process kept the store locked"
    ]
    store.close()


@pytest.mark.parametrize("gone", ["removed", "replaced", "wal removed", "wal replaced"])
def test_commit_to_a_lost_file_does_not_count(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    a, b = begun(store, A, events=1), begun(store, B, events=1)
    what = tmp_path / ("sessions.db-wal" if gone.startswith("wal") else "sessions.db")
    copy = what.read_bytes()
    what.unlink()
    if gone.endswith("replaced"):
        what.write_bytes(copy)
    store.submit(A, message(1))
    error = a.wait_for_error()
    assert isinstance(error, StoreGoneError)
    assert f"{what.name} was removed or replaced while it was in use; what happens from here on is not kept" in str(
        error
    )
    store.submit(B, message(1))
    assert isinstance(b.wait_for_error(), StoreGoneError)
    with pytest.raises(SessionReadOnlyError, match="removed or replaced"):
        store.submit(A, message(2))
    assert (a.seqs, b.seqs) == ([0], [0])
    if what == path:
        with pytest.raises(StoreGoneError):
            store.rows()
        assert path.exists() == (gone == "replaced")  # nothing has made a new one
    store.close()


@pytest.mark.slow
def test_whoever_waits_behind_many_changes_waits_for_one_attempt(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock(), busy_seconds=1.0)
    a, _ = begun(store, A, events=1), begun(store, B, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.submit(A, message(1))
        a.wait_for_error()
        for seq in range(2, 400):
            store.submit(A, message(seq))
        done = threading.Thread(target=store.release, args=(B,))
        done.start()
        done.join(PATIENCE)
        assert not done.is_alive()
    a.wait_until(399)
    store.close()


def test_a_short_lock_delays_a_commit_and_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.submit(A, message(1))
        assert heard.seqs == [0]
        other.execute("COMMIT")
        heard.wait_for(1)
    store.close()


def test_removed_row_stops_the_session_without_orphans(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    heard = begun(store, events=1)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA foreign_keys=ON")
        other.execute("DELETE FROM sessions")
    store.submit(A, message(1))
    assert "FOREIGN KEY" in str(heard.wait_for_error())
    with pytest.raises(SessionNotFoundError):
        store.row(A)
    store.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM events").fetchone()[0] == 0


def test_early_failure_is_reported_to_the_first_listener(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    begun(store, B, events=1)
    store.create(row())
    path.unlink()
    store.submit(A, message(0))
    store.retitle(A, "neither")
    store.release(B)  # which waits for all that was submitted before
    with pytest.raises(SessionReadOnlyError, match="removed or replaced"):
        store.acquire(A, Recorder())
    with pytest.raises(SessionReadOnlyError):
        store.retitle(A, "nor this")
    store.close()


@pytest.mark.slow
def test_a_retitling_that_had_to_wait_ends_the_delay(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock(), busy_seconds=0.2)
    heard = begun(store, events=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.retitle(A, "later")
        heard.wait_for_error()
        heard.errors.clear()
    heard.wait_until(0, calls=2)
    assert store.row(A).title == "later"
    store.close()


def test_events_queued_under_a_lock_are_written_in_order(tmp_path: Path) -> None:
    """The lock goes away with the first error, while more is submitted."""
    path = tmp_path / "sessions.db"
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


def test_what_was_queued_behind_a_failed_commit_is_never_written(tmp_path: Path) -> None:
    """The row is back with the error, so what was queued meanwhile could be committed, with a gap before it."""
    path = tmp_path / "sessions.db"
    store = SqliteStore(path, CountingClock())
    begun(store, events=1)
    store.release(A)
    errors: list[Exception | None] = []
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("PRAGMA foreign_keys=OFF")

        def put_back(_seq: int, error: Exception | None) -> None:
            errors.append(error)
            other.execute("INSERT INTO sessions SELECT * FROM kept")

        store.acquire(A, put_back)
        other.execute("CREATE TEMP TABLE kept AS SELECT * FROM sessions")
        other.execute("DELETE FROM sessions")
        with pytest.raises(SessionReadOnlyError):
            _submit_until_refused(store)
        store.release(A)
    assert [event.seq for event in store.load(A)] == [0]
    assert [type(error) for error in errors] == [StoreError]
    store.close()


def _submit_until_refused(store: SqliteStore) -> None:
    # Some of it waits behind the failing commit, whose begin nobody can see.
    pause = threading.Event()
    for seq in range(1, 100_000):
        store.submit(A, message(seq))
        pause.wait(0.005)


# --- crashes ----------------------------------------------------------------------------------------------------------

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


def _kill_often(path: Path, kills: int, seed: int) -> None:
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


def test_no_reported_event_is_lost_to_a_kill(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=4, seed=random.randrange(1 << 32))


@pytest.mark.slow
def test_no_reported_event_is_lost_to_a_hundred_kills(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=100, seed=random.randrange(1 << 32))


def test_processes_that_create_one_database_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state" / "sessions.db"
    names = [SessionId(f"ses_{number}") for number in range(3)]
    source = """
name = SessionId(sys.stdin.readline().strip())
store = SqliteStore(path, SystemClock())
heard = begun(store, name)
for seq in range(300):
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
            assert process.stdin is not None
            process.stdin.write(f"{name}\n".encode())
        assert [line(process.stdout) for process in processes] == ["299 0"] * len(names)
    store = SqliteStore(path, CountingClock())
    for name in names:
        assert texts(store, name) == [str(seq) for seq in range(300)]
    assert {found.events for found in store.rows()} == {300}
    store.close()


def test_uncommitted_events_are_neither_kept_nor_reported(tmp_path: Path) -> None:
    """The process ends at once, with a transaction that another connection holds back."""
    path = tmp_path / "sessions.db"
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
