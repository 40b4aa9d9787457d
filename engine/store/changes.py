"""What the writer's queue holds: each change as a value that knows its statements, and the barrier to wait behind.

Must not decide anything, nor import SQLite. Made by `sqlite`, applied by `writer` inside one transaction.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..ids import BlobDigest, Seq, SessionId
from ..ports import SessionRow
from .blobs import pack
from .held import Held

if TYPE_CHECKING:
    from sqlite3 import Connection

_INSERT_SESSION: Final = (
    "INSERT INTO sessions (session, cwd, directories, title, created_at, updated_at, events)"
    " VALUES (?, ?, ?, ?, ?, ?, 0)"
)
INSERT_EVENT: Final = "INSERT INTO events (session, seq, branch, kind, json) VALUES (?, ?, ?, ?, ?)"
_UPDATE_TITLE: Final = "UPDATE sessions SET title = ? WHERE session = ?"
_HAS_BLOB: Final = "SELECT 1 FROM blobs WHERE digest = ?"
_INSERT_BLOB: Final = "INSERT INTO blobs (digest, data, size) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Create:
    held: Held
    row: SessionRow

    def write(self, connection: Connection) -> None:
        row = self.row
        cwd, *directories = (path.encode("utf-8", "surrogateescape") for path in (row.cwd, *row.directories))
        values = (row.session_id, cwd, b"\0".join(directories), row.title, row.created_at, row.updated_at)
        connection.execute(_INSERT_SESSION, values)


@dataclass(frozen=True, slots=True)
class Append:
    """An event that is due: session, seq, branch, kind, JSON. `at` becomes the session's `updated_at`.

    The only change that is not written one by one: the writer hands all values of a transaction to INSERT_EVENT.
    """

    held: Held
    values: tuple[SessionId, Seq, str, str, str]
    at: float


@dataclass(frozen=True, slots=True)
class Retitle:
    held: Held
    title: str | None

    def write(self, connection: Connection) -> None:
        connection.execute(_UPDATE_TITLE, (self.title, self.held.session_id))


@dataclass(frozen=True, slots=True)
class Greet:
    """Somebody listens from now on who may have missed a position."""

    held: Held

    def write(self, connection: Connection) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Content:
    digest: BlobDigest
    data: bytes

    def write(self, connection: Connection) -> None:
        # Looked up inside the transaction, because what is there now might be deleted before it begins.
        if connection.execute(_HAS_BLOB, (self.digest,)).fetchone() is None:
            connection.execute(_INSERT_BLOB, (self.digest, pack(self.data), len(self.data)))


@dataclass(frozen=True, slots=True)
class Barrier:
    """All that was put before it has been committed or has failed, and listeners know, once `passed` is set."""

    passed: threading.Event = field(default_factory=threading.Event)
    last: bool = False


Change = Create | Append | Retitle | Greet | Content
