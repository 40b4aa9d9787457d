"""Deleting sessions and their contents, giving the space back, and inspecting a database for `doctor`.

New databases have incremental vacuum, which gives space back in steps between which others can write (1 GB in 70 s). A
whole VACUUM copies what is left. It is faster if that is little, but keeps writers waiting, so it runs only while no
session is in use. A database of the first version needs it once, because it was made without incremental vacuum.

Must not know who has acquired a session: `sqlite` takes the lock before it calls. Inspection changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Final

from ...core.ids import SessionId
from ..store_protocol import Collected, SessionRow
from .database import Database, explain, printable, retry_while_busy
from .references import DELETE_UNNAMED, delete_unnamed
from .stored import TIME_OF_USE

_STEP_PAGES: Final = 500
"""Pages that one transaction gives back: 2 MB in some 80 ms. Larger steps are no faster overall."""
_FEW_PAGES: Final = 50_000
"""Pages in use that a whole VACUUM copies in about 2 s (200 MB), well below the time that a writer waits."""
_BATCH_SESSIONS: Final = 200
"""Sessions that are locked and deleted at once. Their commit is a small part of the time."""
_BATCH_EVENTS: Final = 10_000
_NAMED: Final = "SELECT CAST(digest AS BLOB) FROM refs WHERE session = ?"
_DELETE_SESSION: Final = "DELETE FROM sessions WHERE session = ?1"
_OLD_ENOUGH: Final = f"(?2 IS NULL OR {TIME_OF_USE} < ?2)"


def collect(
    database: Database,
    old: Sequence[SessionRow],
    older_than: float,
    locked_free: Callable[[Collection[SessionId]], AbstractContextManager[Collection[SessionId]]],
    alone: Callable[[], bool],
) -> Collected:
    """Delete the unused sessions of `old` and unreferenced contents, and give the space back.

    Args:
        older_than: a session that was updated at this time (seconds since the epoch) or later meanwhile stays.
        locked_free: locks those sessions that are not in use, for the block, and returns them.
        alone: whether no session is in use.
    """
    deleted, in_use = list[SessionId](), list[SessionId]()
    with database.reading() as connection:
        before = _pages(connection)
    for batch in batches(old):
        with locked_free(batch) as locked, database.writing() as connection:
            deleted += [each for each in locked if delete_session(connection, each, older_than)]
        in_use += [each for each in batch if each not in locked]
    with database.writing() as connection:
        _delete_unnamed(connection)
    _give_back(database, alone())
    with database.reading() as connection:
        after = _pages(connection)
    return Collected(deleted=tuple(deleted), in_use=tuple(in_use), freed=max(before - after, 0))


def batches(rows: Iterable[SessionRow]) -> Iterator[list[SessionId]]:
    """Yield the sessions in batches, one for each transaction.

    Few batches, because each commit waits for the disk. Small ones, because others wait while a transaction writes: 50
    ms for _BATCH_EVENTS. A larger session is a batch by itself.
    """
    batch: list[SessionId] = []
    events = 0
    for row in rows:
        if batch and (len(batch) == _BATCH_SESSIONS or events + row.events > _BATCH_EVENTS):
            yield batch
            batch, events = [], 0
        batch.append(row.session_id)
        events += row.events
    if batch:
        yield batch


def delete_session(connection: sqlite3.Connection, session_id: SessionId, older_than: float | None = None) -> bool:
    """Delete, inside a transaction, the session with its events, its references and contents that only it named.

    Returns:
        False if there is no such session, or it was updated at `older_than` (seconds since the epoch) or later.
    """
    named = connection.execute(_NAMED, (session_id,)).fetchall()
    if not connection.execute(f"{_DELETE_SESSION} AND {_OLD_ENOUGH}", (session_id, older_than)).rowcount:
        return False
    delete_unnamed(connection, named)
    return True


def _delete_unnamed(connection: sqlite3.Connection) -> None:
    """Delete, inside a transaction, unreferenced contents, which the first version of the schema left behind.

    No commit relies on them: a commit that names content writes it.
    """
    connection.execute(DELETE_UNNAMED)


def _pages(connection: sqlite3.Connection) -> int:
    """Return the bytes of the database without its WAL."""
    return _number(connection, "page_count") * _number(connection, "page_size")


def _give_back(database: Database, alone: bool) -> None:
    """Cut free pages off the database; `alone` says that no session is in use.

    Raises StoreError; space that was already given back stays given back.
    """
    with database.reading() as connection:
        free = _number(connection, "freelist_count")
        used = _number(connection, "page_count") - free
        stepwise = bool(_number(connection, "auto_vacuum"))
        if alone and (used < min(free, _FEW_PAGES) or not stepwise):
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            retry_while_busy(lambda: connection.execute("VACUUM"))
        elif stepwise:
            _step_by_step(connection)
        with contextlib.suppress(sqlite3.Error):  # a reader may need the WAL; the next checkpoint truncates it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _step_by_step(connection: sqlite3.Connection) -> None:
    free = _number(connection, "freelist_count")
    while free:
        retry_while_busy(lambda: connection.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall())
        left = _number(connection, "freelist_count")
        if left >= free:  # another process frees pages, too; they are for the next time
            return
        free = left


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


# --- inspection -------------------------------------------------------------------------------------------------------

_STEPS: Final = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock; well under a millisecond."""
_MISCOUNTED: Final = (
    "SELECT session, said, there FROM (SELECT session, events AS said,"
    " (SELECT count(*) FROM events WHERE events.session = sessions.session) AS there FROM sessions)"
    " WHERE said IS NOT there LIMIT 10"
)
_LOST: Final = (
    "SELECT session, count(*) FROM refs WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.digest = refs.digest)"
    " GROUP BY session LIMIT 10"
)
_CONTENTS: Final = (
    "SELECT total(length(data)), total(CASE WHEN EXISTS (SELECT 1 FROM refs WHERE refs.digest = blobs.digest"
    " AND NOT droppable) THEN 0 ELSE length(data) END) FROM blobs"
)
_MODES: Final = ((Path.is_dir, 0o700), (Path.is_file, 0o600))


def faults(path: Path, seconds: float) -> list[str] | None:
    """Return the faults of a database: those of `PRAGMA quick_check`, else wrong event counts and missing contents.

    At most ten lines of each. An unreadable database is one fault. None if the check did not end within `seconds`.
    """
    if not path.is_file():  # opening a pipe would block for ever
        return [f"{printable(str(path))} is not a regular file; move it away"]
    try:
        with _looking(path, seconds) as connection:
            found = [str(line) for (line,) in connection.execute("PRAGMA quick_check(10)")]
            if found != ["ok"]:
                return found
            connection.text_factory = _readable
            miscounted = [
                f"session {session} should have {said} events, but {there} are stored; restore the store from a copy"
                for session, said, there in connection.execute(_MISCOUNTED)
            ]
            lost = [
                f"session {session} lacks {count} stored contents that a rebuild needs; restore the store from a copy"
                for session, count in connection.execute(_LOST)
            ]
            return [*miscounted, *lost]
    except UnicodeDecodeError as error:
        return [explain(str(path), error)]
    except sqlite3.Error as error:
        return None if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT else [explain(str(path), error)]


def contents_taken(path: Path, seconds: float) -> tuple[int, int] | None:
    """Return the bytes that contents take, each counted once, and the part that all of their sessions may drop.

    None if it cannot be read, or not within `seconds`.
    """
    if not path.is_file():
        return None
    try:
        with _looking(path, seconds) as connection:
            taken, droppable = connection.execute(_CONTENTS).fetchone()
            return int(taken), int(droppable)
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def open_to_others(*paths: Path) -> list[str]:
    """Return, for each path that others than its owner may use, the command that changes that."""
    commands: list[str] = []
    for path in paths:
        for is_kind, mode in _MODES:
            if is_kind(path) and stat.S_IMODE(path.stat().st_mode) & ~mode:
                commands.append(f"chmod {mode:o} {shlex.quote(printable(str(path)))}")
    return commands


@contextmanager
def _looking(path: Path, seconds: float) -> Generator[sqlite3.Connection]:
    """Open a read-only connection whose statements are interrupted when the time is over."""
    deadline = time.monotonic() + seconds
    with closing(sqlite3.connect(f"file:{_escaped(path)}?mode=ro", uri=True, timeout=seconds)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        yield connection


def _readable(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


def _escaped(path: Path) -> str:
    return "".join(f"%{byte:02x}" for byte in os.fsencode(path))
