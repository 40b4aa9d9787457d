"""References to contents in SQLite: the table `refs`, which says which contents a session refers to.

A reference begins with the first event that names the content; `last` is the position of the last such event. It is
`droppable` until an event names the content that is not droppable itself. References follow the order of the events, so
content that is named again after it was dropped is there again. Contents that nothing refers to are deleted at the end
of a transaction, because a later event of the same transaction may name them.

Imports nothing of SQLite. Used by `writer` and `maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...core.ids import BlobDigest, Seq, SessionId
from .changes import Content
from .schema import pack

if TYPE_CHECKING:
    from sqlite3 import Connection

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


def write_content(connection: Connection, content: Content) -> None:
    """Store content, unless it is stored."""
    # Looked up inside the transaction, because the content could be deleted before it begins.
    if connection.execute(_HAS_BLOB, (content.digest,)).fetchone() is None:
        connection.execute(_INSERT_BLOB, (content.digest, pack(content.data), len(content.data)))


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
