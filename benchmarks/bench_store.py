"""The durable store beside raw sqlite3 in the same run: the bars of "durable log append".

Raw is a loop on one thread over the standard library's sqlite3 with WAL and synchronous=FULL that keeps the same rows
in the same tables: it encodes each event, inserts it and updates the session's row, in transactions of the same size
(1 or 16 events). It has no queue, no second thread, no listener and no checks. A last row, without a bar, compares with
bare inserts of JSON that was ready before. Ours and raw take turns, so that a busy disk slows both; figures are medians
of ROUNDS after a warm-up that brings both WAL files to their size.

Run as `python -m benchmarks.bench_store`; `run()` returns the rows for the collected report.
"""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

from engine.config.system import SystemClock
from engine.events import Event
from engine.events.codec import encode
from engine.events.conversation import AgentText
from engine.ids import EventId, MessageId, Seq, SessionId
from engine.ports import SessionRow
from engine.store.schema import MIGRATIONS
from engine.store.sqlite import SqliteStore

ROUNDS = 9
IN_FLIGHT = 16
SINGLES = 200
GROUPS = 100
WARM_UP = 500  # groups, so that both WAL files have reached their size
TAIL = 100
MILLION = 1_000_000
SESSION = SessionId("ses_0123456789ab0123456789ab")
TEXT = "The tests in tests/engine pass; two of them were slow, so they moved behind the marker. " * 3

Row = dict[str, object]


def run(events: int = MILLION) -> list[Row]:
    """One row per bar: name, ours, peer (both with units), ratio ours/peer, bar, met (None where there is no bar)."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return [*_appends(place), _reopen(place / "large.db", events), _start_up(place / "large.db")]


def _appends(place: Path) -> list[Row]:
    ours, raw, bare = _Ours(place / "ours.db"), _Raw(place / "raw.db"), _Raw(place / "bare.db", bare=True)
    for each in (ours, raw, bare):
        each.groups(IN_FLIGHT, WARM_UP)
    try:
        mine, peer = _alternate(lambda: ours.groups(1, SINGLES), lambda: raw.groups(1, SINGLES))
        rows = [_single(mine / SINGLES * 1000, peer / SINGLES * 1000)]
        for name, bar, act, other in (
            ("16 in flight, refilled as they commit", 0.8, ours.window, raw),
            ("16 at once, then awaited", 0.8, ours.groups, raw),
            ("16 in flight, beside bare inserts of ready JSON", None, ours.window, bare),
        ):
            pair = _alternate(partial(act, IN_FLIGHT, GROUPS), partial(other.groups, IN_FLIGHT, GROUPS))
            rows.append(_rates(name, bar, *(GROUPS * IN_FLIGHT / seconds for seconds in pair)))
    finally:
        for each in (ours, raw, bare):
            each.close()
    return rows


def _single(mine: float, peer: float) -> Row:
    return {
        "name": "single durable append",
        "ours": f"{mine:.3f} ms",
        "peer": f"raw {peer:.3f} ms",
        "ratio": round(mine / peer, 2),
        "bar": "<= raw + 0.15 ms",
        "met": mine <= peer + 0.15,
    }


def _rates(name: str, bar: float | None, mine: float, peer: float) -> Row:
    return {
        "name": f"durable appends, {name}",
        "ours": f"{mine:,.0f}/s",
        "peer": f"groups of {IN_FLIGHT}: {peer:,.0f}/s",
        "ratio": round(mine / peer, 2),
        "bar": "none" if bar is None else f">= {bar} x raw",
        "met": None if bar is None else mine >= bar * peer,
    }


def _reopen(path: Path, events: int) -> Row:
    ours = _Ours(path)
    ours.burst(events)
    ours.close()

    def reopen() -> float:
        start = perf_counter()
        store = SqliteStore(path, SystemClock())
        row = store.row(SESSION)
        found = store.load(SESSION, row.events - TAIL)
        seconds = perf_counter() - start
        store.close()
        assert len(found) == TAIL
        assert found[-1].seq == events - 1
        return seconds

    def raw() -> float:
        start = perf_counter()
        connection = sqlite3.connect(path)
        query = "SELECT json FROM events WHERE session = ? ORDER BY seq DESC LIMIT ?"
        found = connection.execute(query, (SESSION, TAIL)).fetchall()
        seconds = perf_counter() - start
        connection.close()
        assert len(found) == TAIL
        return seconds

    mine, peer = _alternate(reopen, raw)
    return {
        "name": f"reopen + tail of {TAIL} from {events:,} events",
        "ours": f"{mine * 1000:.2f} ms",
        "peer": f"raw, not decoded: {peer * 1000:.2f} ms",
        "ratio": round(mine / peer, 2),
        "bar": "<= 5 ms",
        "met": mine <= 0.005,
    }


def _start_up(path: Path) -> Row:
    """Imports of SQLite and of the store's own modules, and the open, in fresh processes that have the engine."""
    ours = (
        "import sys, time; from pathlib import Path; from engine.config.system import SystemClock\n"
        "from engine.store.sqlite import SqliteStore\n"
        "start = time.perf_counter(); SqliteStore(Path(sys.argv[1]), SystemClock()).rows()\n"
        "print(time.perf_counter() - start)"
    )
    raw = (
        "import sys, time; start = time.perf_counter(); import sqlite3\n"
        "sqlite3.connect(sys.argv[1]).execute('SELECT * FROM sessions').fetchall()\n"
        "print(time.perf_counter() - start)"
    )

    def seconds(source: str) -> float:
        done = subprocess.run([sys.executable, "-c", source, path], capture_output=True, text=True, check=True)
        return float(done.stdout)

    mine, peer = _alternate(lambda: seconds(ours), lambda: seconds(raw))
    return {
        "name": "first rows() of a process, with the imports it causes",
        "ours": f"{mine * 1000:.2f} ms",
        "peer": f"import sqlite3 + select: {peer * 1000:.2f} ms",
        "ratio": round(mine / peer, 2),
        "bar": "<= peer + 3 ms",
        "met": mine <= peer + 0.003,
    }


def _alternate(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[float, float]:
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(ROUNDS)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


class _Ours:
    """One session in a fresh store, and what it takes to wait for commits."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(path, SystemClock())
        self._store.create(SessionRow(session_id=SESSION, cwd="/home/user/project"))
        self._store.acquire(SESSION, self._committed)
        self._next = 0
        self._awaited = -1
        self._reached = threading.Event()
        self._confirmed: SimpleQueue[int] = SimpleQueue()
        self._last = -1

    def groups(self, size: int, count: int) -> float:
        """Submits `size` events and waits until all are durable, `count` times. Seconds for all."""
        events = [[_event(self._next + group * size + offset) for offset in range(size)] for group in range(count)]
        self._next += size * count
        start = perf_counter()
        for group in events:
            self._reached.clear()
            self._awaited = group[-1].seq
            for event in group:
                self._store.submit(SESSION, event)
            self._reached.wait()
        return perf_counter() - start

    def window(self, size: int, count: int) -> float:
        """Submits `size * count` events with never more than `size` unconfirmed. Seconds for all."""
        events = [_event(self._next + offset) for offset in range(size * count)]
        self._next += len(events)
        self._confirmed = SimpleQueue()
        free = size
        start = perf_counter()
        for event in events:
            free = free or self._confirmed.get()
            free -= 1
            self._store.submit(SESSION, event)
        while free < size:
            free += self._confirmed.get()
        return perf_counter() - start

    def burst(self, count: int) -> None:
        """Fills the store, bounded in memory."""
        for _ in range(0, count, 10_000):
            self.groups(10_000, 1)

    def close(self) -> None:
        self._store.close()

    def _committed(self, seq: Seq, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._confirmed.put(seq - self._last)
        self._last = seq
        if seq >= self._awaited:
            self._reached.set()


class _Raw:
    """The floor: the same rows through sqlite3 alone, or (`bare`) only the events, encoded beforehand."""

    def __init__(self, path: Path, *, bare: bool = False) -> None:
        self._bare = bare
        self._connection = connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=FULL", f"foreign_keys={'OFF' if bare else 'ON'}"):
            connection.execute(f"PRAGMA {setting}")
        for migration in MIGRATIONS:
            migration(connection)
        connection.execute("INSERT INTO sessions VALUES (?, '', '', NULL, 0, 0, 0, 0)", (SESSION,))
        self._next = 0

    def groups(self, size: int, count: int) -> float:
        """Commits `size` events, `count` times. Seconds for all."""
        events = [[_event(self._next + group * size + offset) for offset in range(size)] for group in range(count)]
        self._next += size * count
        ready = [_values(group) for group in events] if self._bare else []
        connection = self._connection
        start = perf_counter()
        for number, group in enumerate(events):
            values = ready[number] if self._bare else _values(group)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", values)
            if not self._bare:
                update = "UPDATE sessions SET events = ?, updated_at = ? WHERE session = ?"
                connection.execute(update, (group[-1].seq + 1, group[-1].at, SESSION))
            connection.execute("COMMIT")
        return perf_counter() - start

    def close(self) -> None:
        self._connection.close()


def _values(events: list[Event]) -> list[tuple[str, int, str, str, str]]:
    return [(SESSION, event.seq, event.branch_id, event.kind, encode(event).decode()) for event in events]


def _event(seq: int) -> Event:
    message = MessageId(f"msg_{seq:024x}")
    return AgentText(seq=Seq(seq), event_id=EventId(f"e{seq}"), at=1.7e9 + seq, message_id=message, text=TEXT)


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    names = ("name", "ours", "peer", "ratio", "bar", "met")
    lines = [names, tuple("---" for _ in names), *(tuple(str(row[name]) for name in names) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(table(run()))
