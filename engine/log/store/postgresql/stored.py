"""Reading a PostgreSQL database: rows, pages of sessions, events and contents as values. The `Reader` of its store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import astuple

from ....core.errors import StoreError
from ....core.ids import BlobDigest, Seq, SessionId
from ...events import UNSTAMPED, Event
from ...store_protocol import Droppable, SessionRow
from ..schema import unpack
from ..stored import Wanted, decoded, path_of, row_of, stored_path
from .database import Database, Row

_SELECT_ROWS: Final = (
    "SELECT session, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size,"
    " archived::integer FROM sessions WHERE tenant = %s"
)
_SELECT_DIRECTORIES: Final = "SELECT DISTINCT cwd FROM sessions WHERE tenant = %s"
_SELECT_EVENTS: Final = "SELECT json FROM events WHERE tenant = %s AND session = %s AND seq >= %s ORDER BY seq LIMIT %s"
_SELECT_LAST: Final = "SELECT max(seq) FROM events WHERE tenant = %s AND session = %s"
_SELECT_NAMED: Final = "SELECT digest FROM refs WHERE tenant = %s AND session = %s"
_SELECT_BLOB: Final = "SELECT data FROM blobs WHERE tenant = %s AND digest = %s"
_SELECT_DROPPABLE: Final = (
    "SELECT last, packed FROM refs JOIN blobs USING (tenant, digest)"
    " WHERE tenant = %s AND session = %s AND droppable ORDER BY last, packed"
)
_LAST_POSITION: Final = (1 << 63) - 1


class PostgresqlReader:
    """`Reader` of the sessions of one tenant."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    def row(self, session_id: SessionId) -> SessionRow | None:
        if not _is_id(session_id):  # a client may ask for anything
            return None
        found = self._database.query(f"{_SELECT_ROWS} AND session = %s", (self._tenant, session_id))
        return _row(found[0]) if found else None

    def rows(self, wanted: Wanted) -> Sequence[SessionRow]:
        cwds, titled, archived, after, limit = astuple(wanted)
        # A condition that is not given is true, so there is one statement for all. LIMIT NULL is no limit.
        found = self._database.query(
            f"{_SELECT_ROWS} AND (%b::bytea[] IS NULL OR cwd = ANY(%b::bytea[]))"
            " AND (NOT %s OR title IS NOT NULL) AND (%s::boolean IS NULL OR archived = %s::boolean)"
            " AND (%s::float8 IS NULL OR (updated_at, session) < (%s::float8, %s::text))"
            " ORDER BY updated_at DESC, session DESC LIMIT %s",
            (
                self._tenant,
                *(2 * [None if cwds is None else [stored_path(cwd) for cwd in cwds]]),
                titled,
                archived,
                archived,
                *((None, None, None) if after is None else (after[0], *after)),
                limit,
            ),
        )
        return list(map(_row, found))

    def directories(self) -> set[str]:
        found = self._database.query(_SELECT_DIRECTORIES, (self._tenant,))
        return set(filter(None, [path_of(cwd) for (cwd,) in found]))

    def events(self, session_id: SessionId, since: int, limit: int | None) -> Sequence[Event]:
        """As in the protocol. Raises StoreError for an event that cannot be read."""
        if not _is_id(session_id):
            return []
        values = (self._tenant, session_id, min(since, _LAST_POSITION), limit)
        return decoded(session_id, since, self._database.query(_SELECT_EVENTS, values))

    def last(self, row: SessionRow) -> Seq:
        (found,) = self._database.query(_SELECT_LAST, (self._tenant, row.session_id))
        return UNSTAMPED if found[0] is None else Seq(found[0])

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        if not _is_id(session_id):
            return frozenset()
        found = self._database.query(_SELECT_NAMED, (self._tenant, session_id))
        return frozenset(BlobDigest(name) for (name,) in found)

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        if not _is_id(session_id):
            return []
        found = self._database.query(_SELECT_DROPPABLE, (self._tenant, session_id))
        return [Droppable(seq=Seq(seq), size=size) for seq, size in found]

    def content(self, digest: BlobDigest) -> bytes:
        found = self._database.query(_SELECT_BLOB, (self._tenant, digest)) if _is_id(digest) else []
        if not found:
            raise KeyError(digest)
        return unpack(digest, found[0][0])


def _is_id(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _row(values: Row) -> SessionRow:
    session_id, cwd, directories, title, *rest = values
    try:
        return row_of((session_id, cwd, directories, None if title is None else title.decode(), *rest))
    except UnicodeDecodeError as error:
        raise StoreError(f"the title of session {session_id} is damaged; restore the database from a copy") from error
