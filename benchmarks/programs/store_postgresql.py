"""Durable appends to PostgreSQL, through the store of this interpreter's engine (`engine`) or psycopg alone (`raw`).

Run as `python store_postgresql.py KIND ADDRESS`. Both have SESSIONS sessions, in schemas of their own. Raw is one
connection that inserts the same rows into the same tables and updates the sessions' rows, in transactions of the same
size. It has no queue, no second thread, no listener, no lease and no checks.
"""

from __future__ import annotations

import sys
import threading
import time
from time import perf_counter

import psycopg
from serving import serve

from engine.core.ids import EventId, MessageId, Seq, SessionId
from engine.log.events import Event
from engine.log.events.codec import encode
from engine.log.events.conversation import AgentText
from engine.log.store.postgresql.schema import MIGRATIONS
from engine.log.store.postgresql.store import PostgresqlStore
from engine.log.store_protocol import SessionRow

SESSIONS = [SessionId(f"ses_{number:026x}") for number in range(16)]
TEXT = "The tests in tests/engine pass; two of them were slow, so they moved behind the marker. " * 3


class Clock:
    def now(self) -> float:
        return time.time()


class Engine:
    """Sessions in a fresh store, and what it takes to wait for commits."""

    def __init__(self, address: str) -> None:
        self._store = PostgresqlStore(address, Clock(), schema="bench_engine")
        self._next = 0
        self._left = 0
        self._mutex = threading.Lock()
        self._reached = threading.Event()
        for session in SESSIONS:
            self._store.create(SessionRow(session_id=session, cwd="/home/user/project"))
            self._store.acquire(session, self._committed)
        self.groups(len(SESSIONS), 1)

    def groups(self, size: int, count: int) -> float:
        """Submits an event of each of `size` sessions and waits until all are durable, `count` times."""
        events = [event(self._next + number) for number in range(count)]
        start = perf_counter()
        for each in events:
            self._reached.clear()
            self._left = size
            for session in SESSIONS[:size]:
                self._store.submit(session, each)
            self._reached.wait()
        seconds = perf_counter() - start
        self._catch_up(size, events)
        self._next += count
        return seconds

    def _catch_up(self, size: int, events: list[Event]) -> None:
        # So all sessions have the same number of events.
        rest = SESSIONS[size:]
        for each in events if rest else ():
            self._reached.clear()
            self._left = len(rest)
            for session in rest:
                self._store.submit(session, each)
            self._reached.wait()

    def _committed(self, seq: Seq, error: Exception | None) -> None:
        if error is not None:
            raise error
        with self._mutex:
            self._left -= seq >= 0
            if self._left <= 0:
                self._reached.set()


class Raw:
    """The floor: the same rows through psycopg alone."""

    def __init__(self, address: str) -> None:
        self._connection = connection = psycopg.connect(address, autocommit=True)
        connection.execute("DROP SCHEMA IF EXISTS bench_raw CASCADE")
        connection.execute("CREATE SCHEMA bench_raw")
        connection.execute("SET search_path = bench_raw")
        for migration in MIGRATIONS:
            connection.execute(migration)
        for session in SESSIONS:
            connection.execute("INSERT INTO sessions VALUES ('', %s, '', '', NULL, 0, 0, 0, 0)", (session,))
        self._next = dict.fromkeys(SESSIONS, 0)

    def groups(self, size: int, count: int) -> float:
        """Commits an event of each of `size` sessions, `count` times."""
        connection = self._connection
        start = perf_counter()
        for _ in range(count):
            rows = [(session, event(self._next[session])) for session in SESSIONS[:size]]
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO events VALUES ('', %s, %s, %s, %b)",
                    [(session, each.seq, each.kind, encode(each)) for session, each in rows],
                )
                cursor.executemany(
                    "UPDATE sessions SET events = %s, updated_at = %s, size = size + %s"
                    " WHERE tenant = '' AND session = %s",
                    [(each.seq + 1, each.at, 500, session) for session, each in rows],
                )
            for session in SESSIONS[:size]:
                self._next[session] += 1
        return perf_counter() - start


def event(seq: int) -> Event:
    message = MessageId(f"msg_{seq:024x}")
    return AgentText(seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.7e9 + seq, message_id=message, text=TEXT)


def main(kind: str, address: str) -> None:
    serve({"groups": (Engine(address) if kind == "engine" else Raw(address)).groups})


main(*sys.argv[1:])
