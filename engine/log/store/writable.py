"""A session that this process may write to, from `create` or `acquire` until `release`, and what it may be given.

Owns the rules that every store applies before it takes anything: ids that can name a file, positions without gaps,
text that can be encoded. Must not know where things are kept. Used by each store of the registry, and by imports, which
check before they write.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ...core.clock import Clock
from ...core.errors import (
    InvalidEventError,
    InvalidRequestError,
    SessionInUseError,
    SessionReadOnlyError,
    StoreBusyError,
)
from ...core.ids import BlobDigest, Seq, SessionId
from ...core.text import cut_line
from ..events import UNSTAMPED, Event
from ..events.codec import encode_readable
from ..store_protocol import CommitListener, SessionRow
from .schema import digest_of, names_in, pack
from .stored import INSERT_SESSION, bounded_time, directory_values, row_values

if TYPE_CHECKING:
    from sqlite3 import Connection

_ID_LIMIT: Final = 128
_SHOWN_CHARS: Final = 80
"""What a message shows at most of what it is about."""


@dataclass(slots=True, eq=False)
class WritableSession:
    """`unstored` is the row of a session that is not in the store yet; `committed` and `reported` are positions."""

    session_id: SessionId
    next_seq: int = 0
    committed: Seq = UNSTAMPED
    reported: Seq = UNSTAMPED
    listener: CommitListener | None = None
    failure: str | None = None
    is_delayed: bool = False
    unstored: SessionRow | None = None

    def attach(self, listener: CommitListener) -> None:
        """Gives a session that was just created its listener.

        Raises:
            SessionInUseError: it has one.
            SessionReadOnlyError: a commit failed before there was anybody to tell.
        """
        if self.listener is not None:
            raise SessionInUseError(self.session_id, os.getpid())
        self.check_writable()
        self.listener = listener

    def check_writable(self) -> None:
        """Raises SessionReadOnlyError after a failed commit."""
        if self.failure is not None:
            raise SessionReadOnlyError(self.session_id, self.failure)

    def report(self) -> None:
        """Tells the listener the highest committed position, unless it knows, and that a delay is over."""
        if self.listener is not None and (self.committed > self.reported or self.is_delayed):
            self.reported = self.committed
            self.is_delayed = False
            self._tell(None)

    def fail(self, failure: str, error: Exception) -> None:
        """Makes the session read-only because of `failure`, and tells the listener."""
        self.failure = failure
        self._tell(error)

    def delay(self, error: StoreBusyError) -> None:
        """Tells the listener that a commit has to wait for somebody else; it is reported when it was possible."""
        self.is_delayed = True
        self._tell(error)

    def encoded(self, event: Event) -> tuple[str, int]:
        """The JSON of the event that is due next, and its length in bytes.

        Raises:
            SessionReadOnlyError: a commit failed.
            InvalidEventError: another position is due, or the event holds what JSON in UTF-8 cannot.
        """
        self.check_writable()
        if event.seq != self.next_seq:
            raise InvalidEventError(event.kind, f"position {event.seq} where {self.next_seq} was due")
        try:
            data = encode_readable(event)  # because one that cannot be read would make the whole session unreadable
            return data.decode(), len(data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidEventError(event.kind, f"it cannot be kept as JSON: {error}") from error

    def _tell(self, error: Exception | None) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self.committed, error)
        except Exception:  # because a listener's mistake must not stop the writer, which all sessions share
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def encoded_items(
    row: SessionRow, items: Iterable[Event | bytes]
) -> Iterator[tuple[Event, str, Sequence[BlobDigest], dict[BlobDigest, bytes]]]:
    """Each event with its JSON, the contents before it that it names, and those of them that no event before it names.

    Content that no event names is left out.

    Raises:
        InvalidEventError: another position is due, or the event cannot be kept as JSON.
        InvalidRequestError: there is no event at all.
    """
    due = WritableSession(row.session_id)
    waiting: dict[BlobDigest, bytes] = {}
    brought: set[BlobDigest] = set()
    for item in items:
        if isinstance(item, bytes):
            digest = digest_of(item)
            waiting[digest] = item
            brought.add(digest)
            continue
        json, _ = due.encoded(item)
        due.next_seq += 1
        names = [name for name in names_in(json) if name in brought]
        yield item, json, names, {name: waiting.pop(name) for name in names if name in waiting}
    if not due.next_seq:
        raise InvalidRequestError(f"session {row.session_id} has no events; there is nothing to keep")


def stamped_row(row: SessionRow, clock: Clock) -> SessionRow:
    """The row as it will be stored: without events, its times from the clock where the caller gave none (0.0).

    Raises:
        InvalidRequestError: the id could not name a lock file, or a text in the row is not Unicode.
    """
    check_row(row)
    created = row.created_at or clock.now()
    return replace(row, created_at=created, updated_at=max(created, row.updated_at), events=0, size=0)


def bounded_row(row: SessionRow) -> SessionRow:
    """A row from elsewhere, its times such as every calendar has."""
    return replace(row, created_at=bounded_time(row.created_at), updated_at=bounded_time(row.updated_at))


def check_row(row: SessionRow) -> None:
    """Raises InvalidRequestError where the id could not name a lock file, or a text in the row is not Unicode."""
    check_id(row.session_id)
    check_directories((row.cwd, *row.directories))
    check_title(row.title)


def check_directories(paths: Iterable[str]) -> None:
    """Raises InvalidRequestError for a path that no file system could have given."""
    for path in paths:
        _check_text("directory", path, "surrogateescape")


def check_id(session_id: SessionId) -> None:
    """Raises InvalidRequestError unless the id is 1 to 128 letters, digits, `_`, `-` of ASCII."""
    if not (session_id.isascii() and session_id.replace("_", "").replace("-", "").isalnum()):
        raise InvalidRequestError(f"session id {_shown(session_id)} may hold only ASCII letters, digits, _ and -")
    if len(session_id) > _ID_LIMIT:
        raise InvalidRequestError(f"a session id has at most {_ID_LIMIT} characters, this one {len(session_id)}")


def check_title(title: str | None) -> None:
    """Raises InvalidRequestError for a title that UTF-8 cannot hold."""
    if title is not None:
        _check_text("title", title, "strict")


def _check_text(what: str, text: str, errors: str) -> None:
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{what} {_shown(text)} is not Unicode: {error.reason}") from error
    if "\0" in text:
        raise InvalidRequestError(f"{what} {_shown(text)} must not hold a NUL character")


def _shown(text: str) -> str:
    return cut_line(repr(text), _SHOWN_CHARS)


# queued:
# What the writer's queue holds: each change as a value that knows its statements, and the barrier to wait behind.
#
# Must not decide anything, nor import SQLite. Made by `sqlite`, written by `writer` inside one transaction;
# `whole_session` uses the same statements.

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
