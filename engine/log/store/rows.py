"""Rows of the SQLite tables as values and back. Imports nothing of SQLite. Used by `sqlite` and what writes for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ...core.errors import StoreError
from ...core.ids import SessionId
from ...core.text import valid_text
from ..events import Event
from ..events.codec import UndecodableEventError, decode
from ..store_protocol import SessionRow

INSERT_SESSION: Final = (
    "INSERT INTO sessions (session, cwd, directories, title, created_at, updated_at, events, size)"
    " VALUES (?, ?, ?, ?, ?, ?, 0, 0)"
)
SELECT_DIRECTORIES: Final = "SELECT DISTINCT cwd FROM sessions"
SELECT_ROWS: Final = (
    "SELECT session, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size"
    " FROM sessions"
)
LATEST_TIME: Final = 253_402_300_799.0
"""Seconds since the Unix epoch to the end of the year 9999, after which no calendar writes a date."""
TIME_OF_USE: Final = (
    f"(CASE WHEN typeof(updated_at) IN ('real', 'integer') THEN min(max(updated_at, 0.0), {LATEST_TIME}) ELSE 0.0 END)"
)
"""The column `updated_at` as `row_of` reads it, for what SQL compares."""


def bounded_time(seconds: float) -> float:
    """The nearest time that every calendar has, from 1970 to 9999; 0.0 for what is no number."""
    return min(seconds, LATEST_TIME) if seconds > 0 else 0.0


def row_values(row: SessionRow) -> tuple[object, ...]:
    """What INSERT_SESSION takes."""
    return (row.session_id, *directory_values(row.cwd, row.directories), row.title, row.created_at, row.updated_at)


def directory_values(cwd: str, directories: Sequence[str]) -> tuple[bytes, bytes]:
    """The two columns that hold a session's directories."""
    first, *others = (path.encode("utf-8", "surrogateescape") for path in (cwd, *directories))
    return first, b"\0".join(others)


def row_of(values: tuple[Any, ...]) -> SessionRow:
    """The row that SELECT_ROWS found, whatever it holds: one that is damaged must not hide the others.

    A database says of no column what it holds, and pages and disks fail. What cannot be read is named in `damage`.
    """
    read = _Reader()
    session_id, cwd, directories, title, created_at, updated_at, events, size, contents_size, droppable_size = values
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
        damage=tuple(read.damage),
    )


def path_of(value: object) -> str | None:
    """The directory that a column holds; None where it holds something else."""
    found = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return found if isinstance(found, str) and found.startswith("/") and "\0" not in found else None


class _Reader:
    """Reads the columns of one row; `damage` names those that hold something else."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def text(self, name: str, value: object) -> str | None:
        if value is None or (isinstance(value, str) and valid_text(value) is value):
            return value
        self.damage.append(name)
        if isinstance(value, str):  # as `database` decodes it: bytes that are no UTF-8 are lone surrogates
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
    """The events whose JSON was found from position `since` on. Raises StoreError for one that cannot be read."""
    events: list[Event] = []
    try:
        for (json,) in found:
            events.append(decode(json))
    except UndecodableEventError as error:
        raise StoreError(
            f"event {since + len(events)} of session {session_id} cannot be read: {error}; a newer rewindow may, else"
            " restore the store from a copy"
        ) from error
    return events
