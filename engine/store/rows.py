"""Rows of the SQLite tables as values and back. Imports nothing of SQLite. Used by `sqlite` and what writes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..errors import StoreError
from ..events import Event
from ..events.codec import UndecodableEventError, decode
from ..ids import SessionId
from ..ports import SessionRow

INSERT_SESSION: Final = (
    "INSERT INTO sessions (session, cwd, directories, title, created_at, updated_at, events, size)"
    " VALUES (?, ?, ?, ?, ?, ?, 0, 0)"
)
SELECT_DIRECTORIES: Final = "SELECT DISTINCT cwd FROM sessions"
SELECT_ROWS: Final = "SELECT session, cwd, directories, title, created_at, updated_at, events, size FROM sessions"


LATEST_TIME: Final = 253_402_300_799.0
"""Seconds since the Unix epoch to the end of the year 9999, after which no calendar writes a date."""


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
    """The row that SELECT_ROWS found."""
    session_id, cwd, directories, title, created_at, updated_at, events, size = values
    return SessionRow(
        session_id=SessionId(session_id),
        cwd=path_of(cwd),
        directories=tuple(path_of(path) for path in directories.split(b"\0")) if directories else (),
        title=title,
        created_at=created_at,
        updated_at=updated_at,
        events=events,
        size=size,
    )


def decoded(session_id: SessionId, since: int, found: Sequence[tuple[str]]) -> list[Event]:
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


def path_of(encoded: bytes) -> str:
    """A path as Python writes it."""
    return encoded.decode("utf-8", "surrogateescape")
