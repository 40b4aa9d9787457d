"""Which sessions a listing shows, in which order: the query for a page of them, and the same rule for plain rows.

SQL chooses, because a store may hold thousands of sessions of which an editor draws fifty; values are made of those
alone. There is no index over the times: every commit would have to write it, and a pass over 10,000 rows takes 2 ms.
Imports nothing of SQLite. Used by each store of the registry.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

from ..store_protocol import Place, SessionRow
from .rows import SELECT_ROWS, TIME_OF_USE


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
