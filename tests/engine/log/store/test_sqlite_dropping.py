"""Dropping contents from the SQLite store: within one transaction, killed in the middle, without room."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.store.schema import names_in
from engine.log.store.sqlite import SqliteStore
from tests.support.archives import dropped, is_there, values_kept
from tests.support.stores import PATIENCE, A, B, CountingClock, Gate, begun, begun_with, line, message, outcome, program

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


def _kill_often(path: Path, kills: int) -> None:
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
def test_a_process_killed_while_it_drops_leaves_what_its_log_says(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=2)


@pytest.mark.slow
def test_many_processes_killed_while_they_drop_leave_what_their_logs_say(tmp_path: Path) -> None:
    _kill_often(tmp_path / "sessions.db", kills=60)


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


def test_a_session_that_drops_what_it_keeps_does_not_grow_the_file(tmp_path: Path) -> None:
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


def test_without_room_nothing_is_dropped_and_the_session_can_be_read(tmp_path: Path) -> None:
    lines = outcome(NO_ROOM, tmp_path / "sessions.db")
    assert lines == ["StoreError", "20 True 21", "refused", "1"]
    _check(tmp_path / "sessions.db")
