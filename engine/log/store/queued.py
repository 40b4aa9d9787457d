"""What the writer's queue holds: each change as a value that knows its statements, and the barrier to wait behind.

Must not decide anything, nor import SQLite. Made by `sqlite`, written by `writer` inside one transaction;
`whole_session` uses the same statements.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...core.ids import BlobDigest, Seq, SessionId
from ..store_protocol import SessionRow
from .blobs import pack
from .rows import INSERT_SESSION, directory_values, row_values
from .writable import WritableSession

if TYPE_CHECKING:  # for start-up: `sqlite` imports this module before the first call that needs a database
    from sqlite3 import Connection

INSERT_EVENT: Final = "INSERT INTO events (session, seq, branch, kind, json) VALUES (?, ?, ?, ?, ?)"
_UPDATE_DIRECTORIES: Final = "UPDATE sessions SET cwd = ?, directories = ? WHERE session = ?"
_UPDATE_TITLE: Final = "UPDATE sessions SET title = ? WHERE session = ?"
UPDATE_SESSION: Final = (
    "UPDATE sessions SET events = ?, updated_at = ?, size = max(size + ?, 0),"
    " contents_size = max(contents_size + ?, 0), droppable_size = max(droppable_size + ?, 0) WHERE session = ?"
)
_HAS_BLOB: Final = "SELECT 1 FROM blobs WHERE digest = ?"
_INSERT_BLOB: Final = "INSERT INTO blobs (digest, data, size) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Content that an event names, written by the commit that takes the event."""

    digest: BlobDigest
    data: bytes

    def write(self, connection: Connection) -> None:
        # Looked up inside the transaction, because what is there now might be deleted before it begins.
        if connection.execute(_HAS_BLOB, (self.digest,)).fetchone() is None:
            connection.execute(_INSERT_BLOB, (self.digest, pack(self.data), len(self.data)))


@dataclass(frozen=True, slots=True)
class Create:
    session: WritableSession
    row: SessionRow

    def write(self, connection: Connection) -> None:
        connection.execute(INSERT_SESSION, row_values(self.row))


class Append(Struct, frozen=True):
    """An event that is due: session, seq, branch, kind, JSON of `size` bytes. `at` becomes the session's `updated_at`.

    The only change that is not written one by one: the writer passes all values of a transaction to INSERT_EVENT. And
    the only one that is made for every event, hence a Struct: made in a tenth of the time of a frozen dataclass.
    `names` are the digests in it, `contents` those of them that are not known to be stored. `droppable` and
    `dropped_before` are as in the event.
    """

    session: WritableSession
    values: tuple[SessionId, Seq, str, str, str]
    size: int
    at: float
    names: tuple[BlobDigest, ...] = ()
    contents: tuple[Content, ...] = ()
    droppable: bool = False
    dropped_before: Seq | None = None


@dataclass(frozen=True, slots=True)
class Retitle:
    session: WritableSession
    title: str | None

    def write(self, connection: Connection) -> None:
        connection.execute(_UPDATE_TITLE, (self.title, self.session.session_id))


@dataclass(frozen=True, slots=True)
class Move:
    session: WritableSession
    cwd: str
    directories: tuple[str, ...]

    def write(self, connection: Connection) -> None:
        values = (*directory_values(self.cwd, self.directories), self.session.session_id)
        connection.execute(_UPDATE_DIRECTORIES, values)


@dataclass(frozen=True, slots=True)
class Listen:
    """A listener was attached, which may have missed a position."""

    session: WritableSession

    def write(self, connection: Connection) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Barrier:
    """Sets `passed` when all that was put before it has been committed, has failed or waits, and listeners know.

    What of the session `giving_up` waits is given up then.
    """

    giving_up: WritableSession | None = None
    passed: threading.Event = field(default_factory=threading.Event)
    last: bool = False


Change = Create | Append | Retitle | Move | Listen
