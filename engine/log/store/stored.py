"""What a database holds, as values: all reading of sessions, their events and contents.

Must not know which sessions this process writes to, nor what was created and has no event yet. Imports nothing of
SQLite. Called by `sqlite`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from ...core.errors import StoreError
from ...core.ids import BlobDigest, Seq, SessionId
from ...core.text import valid_text
from ..events import UNSTAMPED, Event
from ..store_protocol import Droppable, Place, SessionRow
from .blobs import unpack
from .listing import page_query
from .references import SELECT_DROPPABLE
from .rows import SELECT_DIRECTORIES, SELECT_ROWS, decoded, path_of, row_of

if TYPE_CHECKING:  # for start-up, as in `sqlite`
    from .database import Database

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
