"""A whole session that comes from elsewhere, written into a database within one transaction.

Must not know where it comes from. Called by `sqlite`, which has the session's lock and has begun the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection
from typing import Final

from ..events import Event
from ..store_protocol import SessionRow
from .queued import INSERT_EVENT, UPDATE_SESSION, Content
from .references import References
from .rows import INSERT_SESSION, row_values
from .writable import encoded_items

_ROWS: Final = 500
"""Events that one statement inserts; more is not faster and only takes memory."""


def write_session(connection: Connection, row: SessionRow, items: Iterable[Event | bytes]) -> None:
    """Inserts the row and all items. Raises what `encoded_items` and `items` raise; the caller rolls back."""
    connection.execute(INSERT_SESSION, row_values(row))
    rows: list[tuple[str, int, str, str, str]] = []
    references = References(connection, row.session_id)
    events = size = 0
    for event, json, names, contents in encoded_items(row, items):
        for digest, data in contents.items():
            Content(digest, data).write(connection)
        references.name(names, event.seq, event.droppable)
        if event.dropped_before is not None:
            references.drop(event.dropped_before)
        size += len(json.encode())
        events += 1
        rows.append((row.session_id, event.seq, event.branch_id, event.kind, json))
        if len(rows) == _ROWS:
            connection.executemany(INSERT_EVENT, rows)
            rows.clear()
    connection.executemany(INSERT_EVENT, rows)
    references.free()
    sizes = (size + references.contents, references.contents, references.droppable)
    connection.execute(UPDATE_SESSION, (events, row.updated_at, *sizes, row.session_id))
