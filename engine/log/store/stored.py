"""Reading the database: rows, pages of sessions, events and contents as values.

Rows are read whatever they contain, because a damaged one must not hide the others. Must not know which sessions this
process writes, nor which were created and have no event yet. Imports nothing of SQLite. `Stored` is for `sqlite`; both
stores use `page`.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ...core.errors import StoreError
from ...core.ids import BlobDigest, Seq, SessionId
from ...core.text import valid_text
from ..events import UNSTAMPED, Event
from ..events.codec import UndecodableEventError, decode
from ..store_protocol import Droppable, Place, SessionRow
from .schema import unpack

if TYPE_CHECKING:
    from .database import Database

INSERT_SESSION: Final = (
    "INSERT INTO sessions (session, cwd, directories, title, created_at, updated_at, events, size)"
    " VALUES (?, ?, ?, ?, ?, ?, 0, 0)"
)
ARCHIVE_SESSION: Final = "UPDATE sessions SET archived = ? WHERE session = ?"
SELECT_DIRECTORIES: Final = "SELECT DISTINCT cwd FROM sessions"
SELECT_ROWS: Final = (
    "SELECT session, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size,"
    " archived"
    " FROM sessions"
)
_SELECT_EVENTS: Final = "SELECT CAST(json AS BLOB) FROM events WHERE session = ? AND seq >= ? ORDER BY seq LIMIT ?"
_SELECT_LAST: Final = "SELECT max(seq) FROM events WHERE session = ?"
_SELECT_NAMED: Final = "SELECT CAST(digest AS BLOB) FROM refs WHERE session = ?"
_SELECT_BLOB: Final = "SELECT CAST(data AS BLOB) FROM blobs WHERE digest = ?"
SELECT_DROPPABLE: Final = (
    "SELECT last, length(data) FROM refs JOIN blobs USING (digest) WHERE session = ? AND droppable"
    " ORDER BY last, length(data)"
)
LATEST_TIME: Final = 253_402_300_799.0
"""Seconds since the Unix epoch to the end of the year 9999, after which no calendar writes a date."""
TIME_OF_USE: Final = (
    f"(CASE WHEN typeof(updated_at) IN ('real', 'integer') THEN min(max(updated_at, 0.0), {LATEST_TIME}) ELSE 0.0 END)"
)
"""The column `updated_at` as `row_of` reads it, for comparisons in SQL."""


class Stored:
    """Reads the database from any thread. Every method may raise StoreError, which says what to do."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def row(self, session_id: SessionId) -> SessionRow | None:
        """Return the row of the session, or None."""
        if valid_text(session_id) is not session_id:  # a client may ask for anything
            return None
        with self._database.reading() as connection:
            found = connection.execute(f"{SELECT_ROWS} WHERE session = ?", (session_id,)).fetchone()
        return None if found is None else row_of(found)

    def rows(self, wanted: Wanted) -> Sequence[SessionRow]:
        """Return a page of the sessions."""
        query, values = _page_query(wanted)
        with self._database.reading() as connection:
            found = connection.execute(query, values).fetchall()
        return list(map(row_of, found))

    def directories(self) -> set[str]:
        """Return the working directories of all sessions."""
        with self._database.reading() as connection:
            found = connection.execute(SELECT_DIRECTORIES).fetchall()
        return set(filter(None, [path_of(cwd) for (cwd,) in found]))

    def events(self, session_id: SessionId, since: int, limit: int | None) -> Sequence[Event]:
        """Return the events from position `since` on. Raises StoreError for one that cannot be read."""
        values = (session_id, since, -1 if limit is None else limit)
        with self._database.reading() as connection:
            found: list[tuple[bytes]] = connection.execute(_SELECT_EVENTS, values).fetchall()
        return decoded(session_id, since, found)

    def last(self, row: SessionRow) -> Seq:
        """Return the position of the session's last event, UNSTAMPED if it has none."""
        # From the events, so that a session with a damaged row can go on. If their index is damaged, the row's count
        # has to do, so that a readable session can be opened.
        last: object = row.events - 1
        with contextlib.suppress(StoreError), self._database.reading() as connection:
            last = connection.execute(_SELECT_LAST, (row.session_id,)).fetchone()[0]
        return Seq(last) if isinstance(last, int) else UNSTAMPED

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """Return the digests of the contents that the session refers to."""
        with self._database.reading() as connection:
            found = connection.execute(_SELECT_NAMED, (session_id,)).fetchall()
        return frozenset(BlobDigest(name.decode("ascii", "replace")) for (name,) in found)

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """Return the contents that the session may drop, the oldest first."""
        with self._database.reading() as connection:
            found = connection.execute(SELECT_DROPPABLE, (session_id,)).fetchall()
        return [Droppable(seq=Seq(seq), size=size) for seq, size in found]

    def content(self, digest: BlobDigest) -> bytes:
        """Return the content. Raises KeyError if there is none, StoreError if it is damaged."""
        with self._database.reading() as connection:
            found: tuple[bytes] | None = connection.execute(_SELECT_BLOB, (digest,)).fetchone()
        if found is None:
            raise KeyError(digest)
        return unpack(digest, found[0])


# --- pages of sessions ------------------------------------------------------------------------------------------------


# SQL selects the page: a store may have thousands of sessions, of which an editor shows fifty. There is no index on the
# times, because every commit would have to update it, and a pass over 10,000 rows takes 2 ms.


class Wanted(Struct, frozen=True):
    """A page of sessions; the fields are the arguments of `Store.rows`."""

    cwds: Collection[str] | None = None
    titled: bool = False
    archived: bool | None = None
    after: Place | None = None
    limit: int | None = None

    def holds(self, row: SessionRow) -> bool:
        """Return whether the session belongs to this page or to a later one."""
        return (
            (self.cwds is None or row.cwd in self.cwds)
            and not (self.titled and row.title is None)
            and self.archived in (None, row.archived)
            and (self.after is None or place_of(row) < self.after)
        )


def _page_query(wanted: Wanted) -> tuple[str, tuple[object, ...]]:
    """Return the SQL that selects the page, for `row_of`, and its values."""
    conditions: list[str] = []
    values: list[object] = []
    if wanted.cwds is not None:
        conditions.append(f"cwd IN ({', '.join('?' * len(wanted.cwds))})")
        values.extend(map(stored_path, wanted.cwds))
    if wanted.titled:
        conditions.append("title IS NOT NULL")
    if wanted.archived is not None:
        conditions.append(f"archived {'<>' if wanted.archived else '='} 0")
    if wanted.after is not None:
        conditions.append(f"({TIME_OF_USE}, session) < (?, ?)")
        values.extend(wanted.after)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    values.append(-1 if wanted.limit is None else wanted.limit)
    return f"{SELECT_ROWS}{where} ORDER BY {TIME_OF_USE} DESC, session DESC LIMIT ?", tuple(values)


def page(rows: Iterable[SessionRow], wanted: Wanted) -> Sequence[SessionRow]:
    """Return those of `rows` that belong to the page, in its order."""
    found = list(filter(wanted.holds, rows))
    return heapq.nlargest(len(found) if wanted.limit is None else wanted.limit, found, key=place_of)


def place_of(row: SessionRow) -> Place:
    """Return the sort key of a session."""
    return (row.updated_at, row.session_id)


def stored_path(path: str) -> bytes:
    """Return a path as a database has it; any text has some bytes."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a client may ask for anything; no session has such a directory
        return path.encode("utf-8", "surrogatepass")


# --- rows -------------------------------------------------------------------------------------------------------------


def bounded_time(seconds: float) -> float:
    """Return the nearest time from 1970 to 9999, which every calendar has; 0.0 for NaN."""
    return min(seconds, LATEST_TIME) if seconds > 0 else 0.0


def row_values(row: SessionRow) -> tuple[object, ...]:
    """Return the values for INSERT_SESSION."""
    return (row.session_id, *directory_values(row.cwd, row.directories), row.title, row.created_at, row.updated_at)


def directory_values(cwd: str, directories: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the two columns of a session's directories."""
    first, *others = (path.encode("utf-8", "surrogateescape") for path in (cwd, *directories))
    return first, b"\0".join(others)


def row_of(values: tuple[Any, ...]) -> SessionRow:
    """Return the row that SELECT_ROWS found, with the unreadable columns in `damage`.

    SQLite guarantees the type of no column, and disks fail.
    """
    read = _Reader()
    session_id, cwd, directories, title, created_at, updated_at, events, *rest = values
    size, contents_size, droppable_size, archived = rest
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
        archived=read.count("mark of the archive", archived) > 0,
        damage=tuple(read.damage),
    )


def path_of(value: object) -> str | None:
    """Return the directory in a column, or None if the column has something else."""
    found = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return found if isinstance(found, str) and found.startswith("/") and "\0" not in found else None


class _Reader:
    """Reads the columns of one row; `damage` names the unreadable ones."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def text(self, name: str, value: object) -> str | None:
        if value is None or (isinstance(value, str) and valid_text(value) is value):
            return value
        self.damage.append(name)
        if isinstance(value, str):  # `database` decodes bytes that are not UTF-8 as lone surrogates
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
    """Decode events whose positions begin at `since`. Raises StoreError for one that cannot be read."""
    events: list[Event] = []
    try:
        for (json,) in found:
            events.append(decode(json))
    except UndecodableEventError as error:
        raise StoreError(
            f"event {since + len(events)} of session {session_id} cannot be read: {error}; try a "
            "newer rewindow, or restore the store from a copy"
        ) from error
    return events
