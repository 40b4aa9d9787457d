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
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ...core.clock import Clock
from ...core.cutting import cut_line
from ...core.errors import (
    InvalidEventError,
    InvalidRequestError,
    SessionInUseError,
    SessionReadOnlyError,
    StoreBusyError,
)
from ...core.ids import BlobDigest, Seq, SessionId
from ..events import UNSTAMPED, Event
from ..events.codec import encode_readable
from ..store_protocol import CommitListener, SessionRow
from .blobs import digest_of, names_in
from .rows import bounded_time

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
