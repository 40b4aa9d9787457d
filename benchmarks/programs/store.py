"""Durable appends, and opening what was written, through one of three: the store of the engine that this interpreter
has (`engine`), sqlite3 alone with the same rows (`raw`), or bare inserts of JSON that was ready before (`bare`).

Run as `python store.py KIND PATH`, where PATH is a database that is made or opened.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

from serving import serve

from engine.core.ids import EventId, MessageId, Seq, SessionId
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.events.conversation import AgentText
from engine.log.store.schema import MIGRATIONS
from engine.log.store.sqlite import SqliteStore
from engine.log.store_protocol import SessionRow

SESSION = SessionId("ses_0123456789ab0123456789ab")
TEXT = "The tests in tests/engine pass; two of them were slow, so they moved behind the marker. " * 3
TAIL = 100
BURST = 10_000


class Clock:
    def now(self) -> float:
        return time.time()


class Engine:
    """One session in a fresh store, and what it takes to wait for commits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = SqliteStore(path, Clock())
        self._store.create(SessionRow(session_id=SESSION, cwd="/home/user/project"))
        self._store.acquire(SESSION, self._committed)
        self._next = 0
        self._awaited = -1
        self._reached = threading.Event()
        self._confirmed: SimpleQueue[int] = SimpleQueue()
        self._last = -1

    def groups(self, size: int, count: int) -> float:
        """Submits `size` events and waits until all are durable, `count` times. Seconds for all."""
        events = [[event(self._next + group * size + offset) for offset in range(size)] for group in range(count)]
        self._next += size * count
        start = perf_counter()
        for group in events:
            self._reached.clear()
            self._awaited = group[-1].seq
            for each in group:
                self._store.submit(SESSION, each)
            self._reached.wait()
        return perf_counter() - start

    def window(self, size: int, count: int) -> float:
        """Submits `size * count` events with never more than `size` unconfirmed. Seconds for all."""
        events = [event(self._next + offset) for offset in range(size * count)]
        self._next += len(events)
        self._confirmed = SimpleQueue()
        free = size
        start = perf_counter()
        for each in events:
            free = free or self._confirmed.get()
            free -= 1
            self._store.submit(SESSION, each)
        while free < size:
            free += self._confirmed.get()
        return perf_counter() - start

    def fill(self, events: int) -> float:
        """Appends until there are so many, bounded in memory, and closes the store."""
        start = perf_counter()
        while self._next < events:
            self.groups(min(BURST, events - self._next), 1)
        self._store.close()
        return perf_counter() - start

    def reopen(self) -> float:
        start = perf_counter()
        store = SqliteStore(self._path, Clock())
        row = store.row(SESSION)
        found = store.load(SESSION, row.events - TAIL)
        seconds = perf_counter() - start
        store.close()
        assert len(found) == TAIL
        assert found[-1].seq == row.events - 1
        return seconds

    def _committed(self, seq: Seq, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._confirmed.put(seq - self._last)
        self._last = seq
        if seq >= self._awaited:
            self._reached.set()


class Raw:
    """The floor: the same rows through sqlite3 alone, or (`bare`) only the events, encoded beforehand."""

    def __init__(self, path: Path, *, bare: bool) -> None:
        self._path = path
        self._bare = bare
        self._connection = connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=FULL", f"foreign_keys={'OFF' if bare else 'ON'}"):
            connection.execute(f"PRAGMA {setting}")
        for migration in MIGRATIONS:
            migration(connection)
        columns = "session, cwd, directories, created_at, updated_at, events"
        connection.execute(f"INSERT INTO sessions ({columns}) VALUES (?, '', '', 0, 0, 0)", (SESSION,))
        self._next = 0

    def groups(self, size: int, count: int) -> float:
        """Commits `size` events, `count` times. Seconds for all."""
        events = [[event(self._next + group * size + offset) for offset in range(size)] for group in range(count)]
        self._next += size * count
        ready = [values(group) for group in events] if self._bare else []
        connection = self._connection
        start = perf_counter()
        for number, group in enumerate(events):
            rows = ready[number] if self._bare else values(group)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            if not self._bare:
                update = "UPDATE sessions SET events = ?, updated_at = ? WHERE session = ?"
                connection.execute(update, (group[-1].seq + 1, group[-1].at, SESSION))
            connection.execute("COMMIT")
        return perf_counter() - start

    def fill(self, events: int) -> float:
        start = perf_counter()
        while self._next < events:
            self.groups(min(BURST, events - self._next), 1)
        self._connection.close()
        return perf_counter() - start

    def reopen(self) -> float:
        start = perf_counter()
        connection = sqlite3.connect(self._path)
        query = "SELECT json FROM events WHERE session = ? ORDER BY seq DESC LIMIT ?"
        found = connection.execute(query, (SESSION, TAIL)).fetchall()
        seconds = perf_counter() - start
        connection.close()
        assert len(found) == TAIL
        return seconds


def values(events: list[Event]) -> list[tuple[str, int, str, str, str]]:
    return [(SESSION, each.seq, each.branch_id, each.kind, encode(each).decode()) for each in events]


def event(seq: int) -> Event:
    message = MessageId(f"msg_{seq:024x}")
    return AgentText(seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.7e9 + seq, message_id=message, text=TEXT)


def main(kind: str, path: str) -> None:
    if kind == "engine":
        engine = Engine(Path(path))
        serve({"groups": engine.groups, "window": engine.window, "fill": engine.fill, "reopen": engine.reopen})
    else:
        raw = Raw(Path(path), bare=kind == "bare")
        serve({"groups": raw.groups, "window": raw.groups, "fill": raw.fill, "reopen": raw.reopen})


main(*sys.argv[1:])
