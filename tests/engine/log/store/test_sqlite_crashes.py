"""Processes that are killed at any instant, and processes that write at once: nothing reported is ever lost."""

from __future__ import annotations

import random
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engine.core.ids import BlobDigest, SessionId
from engine.log.events.conversation import UserMessage
from engine.log.store.sqlite import SqliteStore
from tests.support.stores import PATIENCE, A, CountingClock, line, outcome, program, texts

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


def test_processes_that_make_and_fill_one_database_at_once_lose_nothing(tmp_path: Path) -> None:
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


def test_what_was_not_committed_is_not_there_and_was_not_reported(tmp_path: Path) -> None:
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
