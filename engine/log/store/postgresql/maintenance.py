"""Deleting sessions and their contents from PostgreSQL, and inspecting a database for `doctor`.

The server's autovacuum gives space back, so nothing is done for that here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import Connection

from ....core.ids import BlobDigest, SessionId
from ...store_protocol import Collected, SessionRow
from ..database_store import LockedFree
from .database import Database, Row
from .leases import Leases
from .writer import delete_unnamed

_BATCH_SESSIONS: Final = 100
"""Sessions that are locked and deleted in one transaction."""
_NAMED: Final = "SELECT digest FROM refs WHERE tenant = %s AND session = %s"
_DELETE_SESSION: Final = (
    "DELETE FROM sessions WHERE tenant = %s AND session = %s AND (%s::float8 IS NULL OR updated_at < %s::float8)"
    " RETURNING size - contents_size"
)
_UNNAMED: Final = (
    "SELECT digest FROM blobs WHERE tenant = %s AND NOT EXISTS"
    " (SELECT FROM refs WHERE refs.tenant = blobs.tenant AND refs.digest = blobs.digest)"
)


def collect(
    database: Database,
    tenant: str,
    old: Sequence[SessionRow],
    older_than: float,
    locked_free: LockedFree,
    leases: Leases,
) -> Collected:
    """As `Parts.collect`. `freed` counts the deleted bytes; the server's files shrink later."""
    deleted, in_use, freed = list[SessionId](), list[SessionId](), 0
    for start in range(0, len(old), _BATCH_SESSIONS):
        batch = [row.session_id for row in old[start : start + _BATCH_SESSIONS]]
        with locked_free(batch) as locked:
            if locked:
                with database.writing() as connection:
                    leases.check(connection, locked)
                    for session_id in locked:
                        size = delete_session(connection, tenant, session_id, older_than)
                        if size is not None:
                            deleted.append(session_id)
                            freed += size
        in_use += [each for each in batch if each not in locked]
    with database.writing() as connection:
        found = connection.execute(_UNNAMED, (tenant,)).fetchall()
        freed += delete_unnamed(connection, tenant, [BlobDigest(digest) for (digest,) in found])
    return Collected(deleted=tuple(deleted), in_use=tuple(in_use), freed=freed)


def delete_session(
    connection: Connection[Row], tenant: str, session_id: SessionId, older_than: float | None = None
) -> int | None:
    """Delete, inside a transaction, the session with its events, its references and contents that only it named.

    Returns:
        The bytes that were freed; None if there is no such session, or it was updated at `older_than` (seconds since
        the epoch) or later.
    """
    named = connection.execute(_NAMED, (tenant, session_id)).fetchall()
    found = connection.execute(_DELETE_SESSION, (tenant, session_id, older_than, older_than)).fetchall()
    if not found:
        return None
    size: int = found[0][0]
    return size + delete_unnamed(connection, tenant, [BlobDigest(digest) for (digest,) in named])
