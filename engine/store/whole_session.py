"""A whole session that comes from elsewhere, written into a database within one transaction.

Must not know where it comes from. Called by `sqlite` with the session's lock and an open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ..errors import InvalidRequestError
from ..events import Event
from ..ids import BlobDigest
from .blobs import digest_of, names_in
from .queued import INSERT_EVENT, UPDATE_SESSION, Content, refer
from .rows import INSERT_SESSION, row_values
from .writable import WritableSession

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ..ports import SessionRow

_ROWS: Final = 500
"""Events that one statement inserts; more is not faster and only takes memory."""


def encoded_items(
    row: SessionRow, items: Iterable[Event | bytes]
) -> Iterator[tuple[Event, str, dict[BlobDigest, bytes]]]:
    """Each event with its JSON and the contents it names first; content that no event names is left out.

    Raises:
        InvalidEventError: another position is due, or the event cannot be kept as JSON.
        InvalidRequestError: there is no event at all.
    """
    due = WritableSession(row.session_id)
    waiting: dict[BlobDigest, bytes] = {}
    for item in items:
        if isinstance(item, bytes):
            waiting[digest_of(item)] = item
            continue
        json = due.encoded(item)
        due.next_seq += 1
        yield item, json, {name: waiting.pop(name) for name in names_in(json) if name in waiting}
    if not due.next_seq:
        raise InvalidRequestError(f"session {row.session_id} has no events; there is nothing to keep")


def write_session(connection: Connection, row: SessionRow, items: Iterable[Event | bytes]) -> None:
    """Raises what `encoded_items` and `items` raise; the caller rolls back."""
    connection.execute(INSERT_SESSION, row_values(row))
    rows: list[tuple[str, int, str, str, str]] = []
    events = size = 0
    for event, json, contents in encoded_items(row, items):
        for digest, data in contents.items():
            Content(digest, data).write(connection)
        size += len(json.encode()) + refer(connection, row.session_id, contents)
        events += 1
        rows.append((row.session_id, event.seq, event.branch_id, event.kind, json))
        if len(rows) == _ROWS:
            connection.executemany(INSERT_EVENT, rows)
            rows.clear()
    connection.executemany(INSERT_EVENT, rows)
    connection.execute(UPDATE_SESSION, (events, row.updated_at, size, row.session_id))
