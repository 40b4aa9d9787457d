"""Which contents a session refers to, what they take, and which of them it has dropped: the table `refs`.

A reference is there from the first event that names the content. `last` is the position of the last one, and counts as
long as the reference is `droppable`, which it is until an event names the content that is not. All is done in the order
of the events, so that content which is named again after it was dropped is there again; what nothing refers to is
deleted at the end, because until then a later event of the same transaction may name it. Must not know what events
mean. Used inside transactions by `writer`, `whole_session` and `removal`. Imports nothing of SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...core.ids import BlobDigest, Seq, SessionId

if TYPE_CHECKING:  # for start-up: `sqlite` imports this module before the first call that needs a database
    from sqlite3 import Connection

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
