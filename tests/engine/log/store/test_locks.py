"""One owner per session between real processes, however they end, and nobody kept out by what outlives the owner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import InvalidRequestError, SessionInUseError
from engine.core.ids import SessionId
from engine.log.store.locks import SessionLocks
from engine.log.store.sqlite import SqliteStore
from tests.support.archives import kept
from tests.support.stores import (
    PATIENCE,
    A,
    B,
    CountingClock,
    Recorder,
    begun,
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


def test_second_process_learns_the_owner_and_can_read(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with program(OWNER + "say(os.getpid()); sys.stdin.readline(); store.close(); say('closed')", path) as owner:
        pid = int(line(owner.stdout))
        store = SqliteStore(path, CountingClock())
        with pytest.raises(SessionInUseError, match=f"in use by process {pid}") as caught:
            store.acquire(A, Recorder())
        assert (caught.value.pid, caught.value.session_id) == (pid, A)
        assert texts(store) == ["hello", "hello"]
        assert [(found.session_id, found.events) for found in store.rows()] == [(A, 2)]
        begun(store, B, events=1)
        assert owner.stdin is not None
        owner.stdin.write(b"\n")
        assert line(owner.stdout) == "closed"
        heard = Recorder()
        store.acquire(A, heard)
        store.submit(A, message(2))
        heard.wait_for(2)
        store.close()


def test_a_session_of_a_killed_process_can_be_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with program(OWNER + "say('ready'); sys.stdin.readline()", path) as owner:
        assert line(owner.stdout) == "ready"
        owner.kill()
        owner.wait(PATIENCE)
        store = SqliteStore(path, CountingClock())
        store.acquire(A, Recorder())
        assert (tmp_path / "locks" / "sessions.db.ses_a.lock").read_text() == f"{os.getpid()}\n"
        store.submit(A, message(2))
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
def test_a_child_that_outlives_the_owner_keeps_nobody_out(tmp_path: Path, child: str) -> None:
    path = tmp_path / "sessions.db"
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


def test_a_child_that_ends_takes_no_lock_from_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    source = "child = os.fork()\nif child == 0:\n    os._exit(0)\nos.waitpid(child, 0); say('ready'); os.read(0, 1)"
    with program(OWNER + source, path) as owner:
        assert line(owner.stdout) == "ready"
        store = SqliteStore(path, CountingClock())
        with pytest.raises(SessionInUseError):
            store.acquire(A, Recorder())
        store.close()


def test_reading_the_lock_file_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
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


def test_locks_of_sessions_are_independent(tmp_path: Path) -> None:
    locks = SessionLocks(str(tmp_path / "sessions.db"))
    sessions = [SessionId(f"ses_{number}") for number in range(20)]
    for session_id in sessions:
        locks.acquire(session_id)
    command = [sys.executable, "-c", "import os, sys; print(len(os.listdir(sys.argv[1])))", str(tmp_path / "locks")]
    assert subprocess.check_output(command, text=True, timeout=PATIENCE).strip() == "20"
    for session_id in sessions:
        locks.release(session_id)
        locks.release(session_id)
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


def test_brief_locks_share_a_file_and_release_separately(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
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


def test_crashed_sessions_with_one_file_are_taken_over_separately(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
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


def test_without_hard_links_each_session_gets_a_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_names: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "sessions.db"
    locks = SessionLocks(str(path))
    assert locks.acquire_free(NAMES) == NAMES
    locks.release(NAMES[0])
    assert {name for name in NAMES if _locked_by_anybody(path, name)} == set(NAMES[1:])
    for name in NAMES:
        locks.release(name)
