"""What a commit writes: changes of sessions as values that know their SQL, and references to contents.

**Changes.** `sqlite` makes them, and `writer` writes them in one transaction. They decide nothing.

**References.** The table `refs` says which contents a session refers to. A reference begins with the first event that
names the content; `last` is the position of the last such event. It is `droppable` until an event names the content
that is not droppable itself. References follow the order of the events, so content that is named again after it was
dropped is there again. Contents that nothing refers to are deleted at the end of a transaction, because a later event
of the same transaction may name them.

Imports nothing of SQLite. Used by `sqlite`, `writer` and `maintenance`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...core.ids import BlobDigest, Seq, SessionId
from ..store_protocol import SessionRow
from .schema import pack
from .stored import INSERT_SESSION, directory_values, row_values
from .writable import WritableSession

if TYPE_CHECKING:
    from sqlite3 import Connection

INSERT_EVENT: Final = "INSERT INTO events (session, seq, branch, kind, json) VALUES (?, ?, ?, ?, ?)"
_UPDATE_DIRECTORIES: Final = "UPDATE sessions SET cwd = ?, directories = ? WHERE session = ?"
_UPDATE_TITLE: Final = "UPDATE sessions SET title = ? WHERE session = ?"
UPDATE_SESSION: Final = (
    "UPDATE sessions SET events = ?, updated_at = ?, size = max(size + ?, 0),"
    " contents_size = max(contents_size + ?, 0), droppable_size = max(droppable_size + ?, 0) WHERE session = ?"
)
_HAS_BLOB: Final = "SELECT 1 FROM blobs WHERE digest = ?"
_INSERT_BLOB: Final = "INSERT INTO blobs (digest, data, size) VALUES (?, ?, ?)"
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
DELETE_UNNAMED: Final = "DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM refs WHERE refs.digest = blobs.digest)"


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Content that an event names, written by the same commit."""

    digest: BlobDigest
    data: bytes

    def write(self, connection: Connection) -> None:
        # Looked up inside the transaction, because the content could be deleted before it begins.
        if connection.execute(_HAS_BLOB, (self.digest,)).fetchone() is None:
            connection.execute(_INSERT_BLOB, (self.digest, pack(self.data), len(self.data)))


@dataclass(frozen=True, slots=True)
class Create:
    session: WritableSession
    row: SessionRow

    def write(self, connection: Connection) -> None:
        connection.execute(INSERT_SESSION, row_values(self.row))


class Append(Struct, frozen=True):
    """The next event of a session. `values` are for INSERT_EVENT; `at` becomes the session's `updated_at`.

    The writer inserts all events of a transaction with one call. `size` is that of the JSON in bytes. `names` are the
    digests in it, `contents` those that are not known to be stored. `droppable` and `dropped_before` are the event's. A
    Struct, because one is made for every event, in a tenth of the time of a frozen dataclass.
    """

    session: WritableSession
    values: tuple[SessionId, Seq, str, str, str]
    size: int
    at: float
    names: tuple[BlobDigest, ...] = ()
    contents: tuple[Content, ...] = ()
    droppable: bool = False
    dropped_before: Seq | None = None


@dataclass(frozen=True, slots=True)
class Retitle:
    session: WritableSession
    title: str | None

    def write(self, connection: Connection) -> None:
        connection.execute(_UPDATE_TITLE, (self.title, self.session.session_id))


@dataclass(frozen=True, slots=True)
class Move:
    session: WritableSession
    cwd: str
    directories: tuple[str, ...]

    def write(self, connection: Connection) -> None:
        values = (*directory_values(self.cwd, self.directories), self.session.session_id)
        connection.execute(_UPDATE_DIRECTORIES, values)


@dataclass(frozen=True, slots=True)
class Listen:
    """Reports the committed position to a new listener, which may have missed it."""

    session: WritableSession

    def write(self, connection: Connection) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Barrier:
    """Sets `passed` when all earlier changes are committed, failed or waiting, and listeners know.

    Waiting changes of the session `giving_up` are then given up.
    """

    giving_up: WritableSession | None = None
    passed: threading.Event = field(default_factory=threading.Event)
    last: bool = False


Change = Create | Append | Retitle | Move | Listen


def delete_unnamed(connection: Connection, digests: Iterable[tuple[bytes]]) -> None:
    """Delete those of the contents that no session refers to."""
    connection.executemany(f"{DELETE_UNNAMED} AND digest = CAST(? AS TEXT)", digests)


class References:
    """The references of one session in one transaction. `contents` and `droppable` count the bytes added to each."""

    __slots__ = ("_connection", "_dropped", "_session_id", "contents", "droppable")

    def __init__(self, connection: Connection, session_id: SessionId) -> None:
        self._connection = connection
        self._session_id = session_id
        self._dropped: list[tuple[bytes]] = []
        self.contents = 0
        self.droppable = 0

    def name(self, digests: Iterable[BlobDigest], seq: Seq, droppable: bool) -> None:
        """Note that the event at `seq` names these digests. Digests of contents that are not stored are ignored."""
        for digest in digests:
            values = (self._session_id, digest, seq, droppable)
            if self._connection.execute(_INSERT, values).rowcount:
                size = self._size(digest)
                self.contents += size
                self.droppable += size if droppable else 0
            elif self._connection.execute(_RENEW, values).rowcount and not droppable:
                self.droppable -= self._size(digest)

    def drop(self, before: Seq) -> None:
        """Remove the droppable references whose last event is before that position."""
        old = (self._session_id, before)
        for digest, size in self._connection.execute(_SELECT_OLD, old).fetchall():
            self._dropped.append((digest,))
            self.contents -= size
            self.droppable -= size
        self._connection.execute(_DELETE_OLD, old)

    def free(self) -> None:
        """Delete dropped contents without references. Call it after the last event of the transaction."""
        delete_unnamed(self._connection, self._dropped)

    def _size(self, digest: BlobDigest) -> int:
        return self._connection.execute(_SIZE, (digest,)).fetchone()[0]
