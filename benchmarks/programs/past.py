"""What a session's past costs, with the engine that this interpreter has: statements, loads and bytes on disk.

Run as `python past.py DIR`; sessions are kept and files are written below it. Statements run in worker processes, as an
editor's do, and count when their record is durable. Kinds of statements: `plain` binds small names, `views` follows a
file that changes before every statement, `effects` writes and reads a file through the host, `acts` writes one itself.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import anyio.from_thread
from serving import serve

from engine.core.ids import Seq
from engine.core.settings import Settings
from engine.log.events import EVENTS
from engine.session.host import Host

LINES = "".join(f"line {number} of a file that somebody works on\n" for number in range(100))
KEEPS_VALUES = "values_kept" in {each.kind for each in EVENTS}
SETTLING_SECONDS = 10.0
FIRST = {
    "plain": "import random",
    "views": 'seen = 0; handle = view("watched.txt"); handle.Run()',
    "effects": "import random",
    "acts": "import pathlib",
}
EACH = {
    "plain": "name_{slot} = [{number}, {number} + 1]; count = {number}",
    "views": "seen += 1",
    "effects": 'done = write("out.txt", "line {number}\\n" * 20); back = read("out.txt")',
    "acts": '_ = pathlib.Path("own_{slot}.txt").write_text("line {number}"); made = [{number}] * 20',
}


class Engine:
    """A host in `place`; `project` is the directory of all sessions."""

    def __init__(self, host: Host, place: Path) -> None:
        self._host = host
        self._state = place / "state"
        self._project = place / "project"
        self._sessions: dict[str, list[str]] = {}
        self._live: Any = None
        self._number = 0

    async def make(self, kind: str, sessions: int, statements: int) -> float:
        """So many closed sessions of so many statements; seconds for all."""
        start = perf_counter()
        made = self._sessions.setdefault(kind, [])
        for session_number in range(sessions):
            session = await self._host.sessions.create(str(self._project))
            await self._typed(session, FIRST[kind])
            for number in range(1, statements):  # no two sessions keep the same
                await self._step(session, kind, number + session_number * statements)
            made.append(session.session_id)
            await settled(session)
            await self._host.sessions.close(session.session_id)
        return perf_counter() - start

    async def _step(self, session: Any, kind: str, number: int) -> None:
        if kind == "views":
            (self._project / "watched.txt").write_text(f"{LINES}changed {number} times\n")
        await self._typed(session, EACH[kind].format(number=number, slot=number % 10))

    async def _typed(self, session: Any, source: str) -> None:
        """A turn of its own, whose tick comes before the statement."""
        await session.accept(source).end()
        finished = session.cells[-1].finished
        assert finished.status == "ok", finished

    async def load(self, kind: str) -> float:
        """Seconds for the load of one such session, and for its first statement, which the rebuild comes before."""
        session_id = self._sessions[kind][-1]
        start = perf_counter()
        session = await self._host.sessions.load(session_id, str(self._project))
        finished = await session.cell("after = 1")
        took = perf_counter() - start
        assert finished.status == "ok", finished
        await self._host.sessions.close(session_id)
        return took

    async def replies(self, count: int) -> float:
        """Seconds from a statement to its durable record, for all of so many; what is kept beside has ended between."""
        session, seconds = await self._session(), 0.0
        for _ in range(count):
            start = perf_counter()
            await self._bind(session)
            seconds += perf_counter() - start
            await settled(session)
        return seconds

    async def statements(self, count: int) -> float:
        """Seconds for so many statements, one after the other, until all that is kept of them is durable."""
        session = await self._session()
        start = perf_counter()
        for _ in range(count):
            await self._bind(session)
        await settled(session)
        return perf_counter() - start

    async def _bind(self, session: Any) -> None:
        self._number += 1
        await session.cell(EACH["plain"].format(number=self._number, slot=self._number % 10))

    async def _session(self) -> Any:
        if self._live is None:
            self._live = await self._host.sessions.create(str(self._project))
        return self._live

    async def events(self) -> float:
        """Events that a statement of `statements` leaves."""
        session = await self._session()
        await self._bind(session)
        await settled(session)
        before = len(session.events)
        await self._bind(session)
        await settled(session)
        return len(session.events) - before

    async def taken(self, what: str) -> float:
        """Bytes of all sessions: of their `events` as JSON, of the `contents` that these name, or of the `file`."""
        with closing(sqlite3.connect(self._state / "sessions.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if what == "file":
                pages, size, free = (
                    connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "page_size", "freelist_count")
                )
                return float((pages - free) * size)
            query = {
                "events": "SELECT total(length(CAST(json AS BLOB))) FROM events",
                "contents": "SELECT total(length(data)) FROM blobs",
            }
            return connection.execute(query[what]).fetchone()[0]


async def settled(session: Any) -> None:
    """Waits until all that came of the statements so far is durable, with the values that are kept beside them."""
    await session.idle()
    with anyio.move_on_after(SETTLING_SECONDS):
        while KEEPS_VALUES and not values_kept(session):  # noqa: ASYNC110 -- nobody tells
            await anyio.sleep(0.0002)
    await session.durable(Seq(len(session.events) - 1))


def values_kept(session: Any) -> bool:
    """Whether those of the last statement are on the log."""
    last = session.cells[-1].finished
    return any(
        event.kind == "values_kept" and event.execution_id == last.execution_id for event in session.events[-10:]
    )


def main(directory: str) -> None:
    place = Path(directory)
    (place / "project").mkdir(parents=True)
    (place / "project" / "watched.txt").write_text(LINES)
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    host = Host(Settings(state_dir=place / "state"), environ)
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(host):
        engine = Engine(host, place)
        actions = ("make", "load", "replies", "statements", "events", "taken")
        serve({name: lambda *given, name=name: portal.call(getattr(engine, name), *given) for name in actions})


if __name__ == "__main__":
    main(sys.argv[1])
