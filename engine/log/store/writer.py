"""Writing to SQLite: the changes of a commit in one transaction, and whole sessions.

A commit counts only after COMMIT returned and the path still names the file that was written. Must not decide what may
be written. `sqlite` makes the committer, for a `GroupCommit`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Final

from ..events import Event
from ..store_protocol import SessionRow
from .changes import Append, Change, Content, Create, Listen, Move, Retitle
from .database import Database, explain, is_busy, retry_while_busy
from .references import References, write_content
from .stored import INSERT_SESSION, directory_values, row_values
from .writable import WritableSession, encoded_items

_INSERT_EVENT: Final = "INSERT INTO events (session, seq, branch, kind, json) VALUES (?, ?, ?, ?, ?)"
_UPDATE_DIRECTORIES: Final = "UPDATE sessions SET cwd = ?, directories = ? WHERE session = ?"
_UPDATE_TITLE: Final = "UPDATE sessions SET title = ? WHERE session = ?"
_UPDATE_SESSION: Final = (
    "UPDATE sessions SET events = ?, updated_at = ?, size = max(size + ?, 0),"
    " contents_size = max(contents_size + ?, 0), droppable_size = max(droppable_size + ?, 0) WHERE session = ?"
)
_ROWS: Final = 500
"""How many events one statement inserts; more is no faster and takes memory."""


class SqliteCommitter:
    """`Committer` of a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None

    def commit(self, changes: Sequence[Change], *, is_retry: bool) -> None:
        """As in the protocol. Raises sqlite3.Error, StoreError (StoreGoneError after COMMIT)."""
        if self._connection is None:
            self._database.in_place.check()  # SQLite would create a missing file
            self._connection = self._database.connect()
        connection = self._connection
        if is_retry:  # one attempt, so that callers who wait for the writer do not wait longer
            connection.execute("BEGIN IMMEDIATE")
        else:
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            self._database.check_version(connection)
            _write(connection, changes)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self._database.in_place.check_commit()

    def is_temporary(self, error: Exception) -> bool:
        return is_busy(error)

    def explain(self, error: Exception) -> str:
        return explain(self._database.path, error)

    def delayed(self, error: Exception) -> str:
        return f"{self.explain(error)}; new events are saved when the lock is released"

    def rest(self) -> None:
        # PASSIVE, because after TRUNCATE the file has to grow again: commits then took 0.20-0.28 ms instead of 0.16.
        # A failure loses nothing, because the WAL still has everything; the next idle moment tries again.
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _write(connection: Connection, changes: Sequence[Change]) -> None:
    appends = [change for change in changes if isinstance(change, Append)]
    for change in changes:
        if not isinstance(change, Append):
            _write_change(connection, change)
    for content in {content.digest: content for change in appends for content in change.contents}.values():
        write_content(connection, content)
    connection.executemany(_INSERT_EVENT, [change.values for change in appends])
    grown: dict[WritableSession, int] = {}
    last: dict[WritableSession, Append] = {}
    for change in appends:
        session = change.session
        last[session] = change
        grown[session] = grown.get(session, 0) + change.size
    references = {session: References(connection, session.session_id) for session in last}
    for change in appends:
        if change.names:
            references[change.session].name(change.names, change.values[1], change.droppable)
        if change.dropped_before is not None:
            references[change.session].drop(change.dropped_before)
    for session, change in last.items():
        own = references[session]
        own.free()
        sizes = (grown[session] + own.contents, own.contents, own.droppable)
        connection.execute(_UPDATE_SESSION, (change.values[1] + 1, change.at, *sizes, session.session_id))


def _write_change(connection: Connection, change: Create | Retitle | Move | Listen) -> None:
    match change:
        case Create(row=row):
            connection.execute(INSERT_SESSION, row_values(row))
        case Retitle(session=session, title=title):
            connection.execute(_UPDATE_TITLE, (title, session.session_id))
        case Move(session=session, cwd=cwd, directories=directories):
            connection.execute(_UPDATE_DIRECTORIES, (*directory_values(cwd, directories), session.session_id))
        case Listen():
            pass


def write_session(connection: Connection, row: SessionRow, items: Iterable[Event | bytes]) -> None:
    """Insert a whole session from elsewhere.

    The caller has the session's lock and has begun the transaction, and rolls it back if this raises. Raises what
    `encoded_items` and `items` raise.
    """
    connection.execute(INSERT_SESSION, row_values(row))
    rows: list[tuple[str, int, str, str, str]] = []
    references = References(connection, row.session_id)
    events = size = 0
    for event, json, names, contents in encoded_items(row, items):
        for digest, data in contents.items():
            write_content(connection, Content(digest, data))
        references.name(names, event.seq, event.droppable)
        if event.dropped_before is not None:
            references.drop(event.dropped_before)
        size += len(json.encode())
        events += 1
        rows.append((row.session_id, event.seq, event.branch_id, event.kind, json))
        if len(rows) == _ROWS:
            connection.executemany(_INSERT_EVENT, rows)
            rows.clear()
    connection.executemany(_INSERT_EVENT, rows)
    references.free()
    sizes = (size + references.contents, references.contents, references.droppable)
    connection.execute(_UPDATE_SESSION, (events, row.updated_at, *sizes, row.session_id))
