"""Rows of the SQLite tables as values and back. Imports nothing of SQLite. Used by `sqlite` and what writes for it."""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...core.errors import StoreError
from ...core.ids import BlobDigest, Seq, SessionId
from ...core.text import valid_text
from ..events import UNSTAMPED, Event
from ..events.codec import UndecodableEventError, decode
from ..store_protocol import Droppable, Place, SessionRow
from .schema import unpack

if TYPE_CHECKING:
    from sqlite3 import Connection

    from .database import Database

INSERT_SESSION: Final = (
    "INSERT INTO sessions (session, cwd, directories, title, created_at, updated_at, events, size)"
    " VALUES (?, ?, ?, ?, ?, ?, 0, 0)"
)
SELECT_DIRECTORIES: Final = "SELECT DISTINCT cwd FROM sessions"
SELECT_ROWS: Final = (
    "SELECT session, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size"
    " FROM sessions"
)
LATEST_TIME: Final = 253_402_300_799.0
"""Seconds since the Unix epoch to the end of the year 9999, after which no calendar writes a date."""
TIME_OF_USE: Final = (
    f"(CASE WHEN typeof(updated_at) IN ('real', 'integer') THEN min(max(updated_at, 0.0), {LATEST_TIME}) ELSE 0.0 END)"
)
"""The column `updated_at` as `row_of` reads it, for what SQL compares."""


def bounded_time(seconds: float) -> float:
    """The nearest time that every calendar has, from 1970 to 9999; 0.0 for what is no number."""
    return min(seconds, LATEST_TIME) if seconds > 0 else 0.0


def row_values(row: SessionRow) -> tuple[object, ...]:
    """What INSERT_SESSION takes."""
    return (row.session_id, *directory_values(row.cwd, row.directories), row.title, row.created_at, row.updated_at)


def directory_values(cwd: str, directories: Sequence[str]) -> tuple[bytes, bytes]:
    """The two columns that hold a session's directories."""
    first, *others = (path.encode("utf-8", "surrogateescape") for path in (cwd, *directories))
    return first, b"\0".join(others)


def row_of(values: tuple[Any, ...]) -> SessionRow:
    """The row that SELECT_ROWS found, whatever it holds: one that is damaged must not hide the others.

    A database says of no column what it holds, and pages and disks fail. What cannot be read is named in `damage`.
    """
    read = _Reader()
    session_id, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size = values
    return SessionRow(
        session_id=SessionId(read.text("id", session_id) or ""),
        cwd=read.path("directory", cwd),
        directories=read.paths("further directories", directories),
        title=read.text("title", title),
        created_at=read.time("time of creation", created_at),
        updated_at=read.time("time of use", updated_at),
        events=read.count("number of events", events),
        size=read.count("size", size),
        contents_size=read.count("size of contents", contents_size),
        droppable_size=read.count("size of values", droppable_size),
        damage=tuple(read.damage),
    )


def path_of(value: object) -> str | None:
    """The directory that a column holds; None where it holds something else."""
    found = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return found if isinstance(found, str) and found.startswith("/") and "\0" not in found else None


class _Reader:
    """Reads the columns of one row; `damage` names those that hold something else."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def text(self, name: str, value: object) -> str | None:
        if value is None or (isinstance(value, str) and valid_text(value) is value):
            return value
        self.damage.append(name)
        if isinstance(value, str):  # as `database` decodes it: bytes that are no UTF-8 are lone surrogates
            value = value.encode("utf-8", "surrogateescape")
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

    def path(self, name: str, value: object) -> str:
        found = path_of(value)
        if found is None:
            self.damage.append(name)
        return found or ""

    def paths(self, name: str, value: object) -> tuple[str, ...]:
        if value == b"":
            return ()
        parts: Sequence[object] = value.split(b"\0") if isinstance(value, bytes) else [value]
        found = tuple(self.path(name, part) for part in parts)
        return found if all(found) else ()

    def time(self, name: str, value: object) -> float:
        if isinstance(value, (int, float)) and bounded_time(value) == value:
            return float(value)
        self.damage.append(name)
        return bounded_time(value) if isinstance(value, (int, float)) else 0.0

    def count(self, name: str, value: object) -> int:
        if isinstance(value, (int, float)) and 0 <= value < math.inf and int(value) == value:
            return int(value)
        self.damage.append(name)
        return 0


def decoded(session_id: SessionId, since: int, found: Sequence[tuple[bytes]]) -> list[Event]:
    """The events whose JSON was found from position `since` on. Raises StoreError for one that cannot be read."""
    events: list[Event] = []
    try:
        for (json,) in found:
            events.append(decode(json))
    except UndecodableEventError as error:
        raise StoreError(
            f"event {since + len(events)} of session {session_id} cannot be read: {error}; a newer rewindow may, else"
            " restore the store from a copy"
        ) from error
    return events


# references:
# Which contents a session refers to, what they take, and which of them it has dropped: the table `refs`.
#
# A reference is there from the first event that names the content. `last` is the position of the last one, and counts
# as long as the reference is `droppable`, which it is until an event names the content that is not. All is done in
# the order of the events, so that content which is named again after it was dropped is there again; what nothing
# refers to is deleted at the end, because until then a later event of the same transaction may name it. Must not know
# what events mean. Used inside transactions by `writer`, `whole_session` and `removal`. Imports nothing of SQLite.

_INSERT: Final = (
    "INSERT OR IGNORE INTO refs (session, digest, last, droppable)"
    " SELECT ?1, digest, ?3, ?4 FROM blobs WHERE digest = ?2"
)
_RENEW: Final = "UPDATE refs SET last = ?3, droppable = ?4 WHERE session = ?1 AND digest = ?2 AND droppable"
_SIZE: Final = "SELECT length(data) FROM blobs WHERE digest = ?"
_SELECT_OLD: Final = (
    "SELECT CAST(digest AS BLOB), coalesce(length(data), 0) FROM refs LEFT JOIN blobs USING (digest)"
    " WHERE session = ? AND droppable AND last < ?"
)
_DELETE_OLD: Final = "DELETE FROM refs WHERE session = ? AND droppable AND last < ?"
SELECT_DROPPABLE: Final = (
    "SELECT last, length(data) FROM refs JOIN blobs USING (digest) WHERE session = ? AND droppable"
    " ORDER BY last, length(data)"
)
DELETE_UNNAMED: Final = "DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM refs WHERE refs.digest = blobs.digest)"


def delete_unnamed(connection: Connection, digests: Iterable[tuple[bytes]]) -> None:
    """Deletes those of the contents that no session refers to."""
    connection.executemany(f"{DELETE_UNNAMED} AND digest = CAST(? AS TEXT)", digests)


class References:
    """One session's, in one transaction. `contents` and `droppable` are the bytes by which these have grown."""

    __slots__ = ("_connection", "_dropped", "_session_id", "contents", "droppable")

    def __init__(self, connection: Connection, session_id: SessionId) -> None:
        self._connection = connection
        self._session_id = session_id
        self._dropped: list[tuple[bytes]] = []
        self.contents = 0
        self.droppable = 0

    def name(self, digests: Iterable[BlobDigest], seq: Seq, droppable: bool) -> None:
        """The event at `seq` names these; those that are stored are referred to from now on."""
        for digest in digests:
            values = (self._session_id, digest, seq, droppable)
            if self._connection.execute(_INSERT, values).rowcount:
                size = self._size(digest)
                self.contents += size
                self.droppable += size if droppable else 0
            elif self._connection.execute(_RENEW, values).rowcount and not droppable:
                self.droppable -= self._size(digest)

    def drop(self, before: Seq) -> None:
        """Forgets the droppable ones that no event at that position or later names."""
        old = (self._session_id, before)
        for digest, size in self._connection.execute(_SELECT_OLD, old).fetchall():
            self._dropped.append((digest,))
            self.contents -= size
            self.droppable -= size
        self._connection.execute(_DELETE_OLD, old)

    def free(self) -> None:
        """Deletes what was dropped and is named by nothing; once all events of the transaction have named theirs."""
        delete_unnamed(self._connection, self._dropped)

    def _size(self, digest: BlobDigest) -> int:
        return self._connection.execute(_SIZE, (digest,)).fetchone()[0]


# listing:
# Which sessions a listing shows, in which order: the query for a page of them, and the same rule for plain rows.
#
# SQL chooses, because a store may hold thousands of sessions of which an editor draws fifty; values are made of those
# alone. There is no index over the times: every commit would have to write it, and a pass over 10,000 rows takes 2
# ms. Imports nothing of SQLite. Used by each store of the registry.


def page_query(
    cwds: Collection[str] | None, titled: bool, after: Place | None, limit: int | None
) -> tuple[str, tuple[object, ...]]:
    """The statement that finds the page, for `rows.row_of`, and its values."""
    conditions: list[str] = []
    values: list[object] = []
    if cwds is not None:
        conditions.append(f"cwd IN ({', '.join('?' * len(cwds))})")
        values.extend(map(_stored_path, cwds))
    if titled:
        conditions.append("title IS NOT NULL")
    if after is not None:
        conditions.append(f"({TIME_OF_USE}, session) < (?, ?)")
        values.extend(after)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    values.append(-1 if limit is None else limit)
    return f"{SELECT_ROWS}{where} ORDER BY {TIME_OF_USE} DESC, session DESC LIMIT ?", tuple(values)


def page(
    rows: Iterable[SessionRow], cwds: Collection[str] | None, titled: bool, after: Place | None, limit: int | None
) -> Sequence[SessionRow]:
    """Those of `rows` that belong to the page, in its order."""
    found = [
        row
        for row in rows
        if (cwds is None or row.cwd in cwds)
        and not (titled and row.title is None)
        and (after is None or place_of(row) < after)
    ]
    return heapq.nlargest(len(found) if limit is None else limit, found, key=place_of)


def place_of(row: SessionRow) -> Place:
    """Where a session stands in the order."""
    return (row.updated_at, row.session_id)


def _stored_path(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # because a client may ask for anything; no session has such a directory
        return path.encode("utf-8", "surrogatepass")


# stored:
# What a database holds, as values: all reading of sessions, their events and contents.
#
# Must not know which sessions this process writes to, nor what was created and has no event yet. Imports nothing of
# SQLite. Called by `sqlite`.

_SELECT_EVENTS: Final = "SELECT CAST(json AS BLOB) FROM events WHERE session = ? AND seq >= ? ORDER BY seq LIMIT ?"
_SELECT_LAST: Final = "SELECT max(seq) FROM events WHERE session = ?"
_SELECT_NAMED: Final = "SELECT CAST(digest AS BLOB) FROM refs WHERE session = ?"
_SELECT_BLOB: Final = "SELECT CAST(data AS BLOB) FROM blobs WHERE digest = ?"


class Stored:
    """Reads the database from any thread. Every method may raise StoreError with a sentence that says what to do."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(self, session_id: SessionId) -> SessionRow | None:
        """The row of the session, None where there is none."""
        if valid_text(session_id) is not session_id:  # because a client may ask for anything
            return None
        with self._database.reading() as connection:
            found = connection.execute(f"{SELECT_ROWS} WHERE session = ?", (session_id,)).fetchone()
        return None if found is None else row_of(found)

    def rows(
        self, cwds: Collection[str] | None, titled: bool, after: Place | None, limit: int | None
    ) -> Sequence[SessionRow]:
        """A page of the rows, in its order: see `listing`."""
        query, values = page_query(cwds, titled, after, limit)
        with self._database.reading() as connection:
            found = connection.execute(query, values).fetchall()
        return list(map(row_of, found))

    def directories(self) -> set[str]:
        """The working directories of all sessions."""
        with self._database.reading() as connection:
            found = connection.execute(SELECT_DIRECTORIES).fetchall()
        return set(filter(None, [path_of(cwd) for (cwd,) in found]))

    def events(self, session_id: SessionId, since: int, limit: int | None) -> Sequence[Event]:
        """The events from position `since` on. Raises StoreError for one that cannot be read."""
        values = (session_id, since, -1 if limit is None else limit)
        with self._database.reading() as connection:
            found: list[tuple[bytes]] = connection.execute(_SELECT_EVENTS, values).fetchall()
        return decoded(session_id, since, found)

    def last(self, row: SessionRow) -> Seq:
        """The position of the session's last event, UNSTAMPED where it has none."""
        # Asked of the events, because a row that is damaged must not keep its session from going on; nor must a damaged
        # index of the events keep one from being opened that can be read.
        last: object = row.events - 1
        with contextlib.suppress(StoreError), self._database.reading() as connection:
            last = connection.execute(_SELECT_LAST, (row.session_id,)).fetchone()[0]
        return Seq(last) if isinstance(last, int) else UNSTAMPED

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """The digests of the contents that the session's events name."""
        with self._database.reading() as connection:
            found = connection.execute(_SELECT_NAMED, (session_id,)).fetchall()
        return frozenset(BlobDigest(name.decode("ascii", "replace")) for (name,) in found)

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """What the session could drop, the oldest first."""
        with self._database.reading() as connection:
            found = connection.execute(SELECT_DROPPABLE, (session_id,)).fetchall()
        return [Droppable(seq=Seq(seq), size=size) for seq, size in found]

    def content(self, digest: BlobDigest) -> bytes:
        """The content. Raises KeyError where there is none, StoreError where it is damaged."""
        with self._database.reading() as connection:
            found: tuple[bytes] | None = connection.execute(_SELECT_BLOB, (digest,)).fetchone()
        if found is None:
            raise KeyError(digest)
        return unpack(digest, found[0])
