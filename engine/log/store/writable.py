"""A session that this process writes, and the checks on everything that it is given.

Owns the rules of every store: ids that can name a file, positions without gaps, text that can be encoded. Must not know
where anything is kept. Used by all stores, and by imports, which check before they write.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from .schema import digest_of, names_in
from .stored import bounded_time

if TYPE_CHECKING:
    pass

_ID_LIMIT: Final = 128
_SHOWN_CHARS: Final = 80
"""The length of a text that a message quotes."""


@dataclass(slots=True, eq=False)
class WritableSession:
    """A session from `create` or `acquire` until `release`. `committed` and `reported` are positions.

    `unstored` is its row until the first commit.
    """

    session_id: SessionId
    next_seq: int = 0
    committed: Seq = UNSTAMPED
    reported: Seq = UNSTAMPED
    listener: CommitListener | None = None
    failure: str | None = None
    is_delayed: bool = False
    unstored: SessionRow | None = None

    def attach(self, listener: CommitListener) -> None:
        """Give a session that was just created its listener.

        Raises:
            SessionInUseError: it has one.
            SessionReadOnlyError: a commit failed before there was a listener.
        """
        if self.listener is not None:
            raise SessionInUseError(self.session_id, os.getpid())
        self.check_writable()
        self.listener = listener

    def check_writable(self) -> None:
        """Raise SessionReadOnlyError after a failed commit."""
        if self.failure is not None:
            raise SessionReadOnlyError(self.session_id, self.failure)

    def report(self) -> None:
        """Report the highest committed position, unless it was reported, and the end of a delay."""
        if self.listener is not None and (self.committed > self.reported or self.is_delayed):
            self.reported = self.committed
            self.is_delayed = False
            self._tell(None)

    def fail(self, failure: str, error: Exception) -> None:
        """Make the session read-only because of `failure`, and report that."""
        self.failure = failure
        self._tell(error)

    def delay(self, error: StoreBusyError) -> None:
        """Report that a commit has to wait for another process."""
        self.is_delayed = True
        self._tell(error)

    def encoded(self, event: Event) -> tuple[str, int]:
        """Return the JSON of the next event, and its length in bytes.

        Raises:
            SessionReadOnlyError: a commit failed.
            InvalidEventError: it has the wrong position, or JSON in UTF-8 cannot represent it.
        """
        self.check_writable()
        if event.seq != self.next_seq:
            raise InvalidEventError(
                event.kind, f"the event has position {event.seq}, but the next position is {self.next_seq}"
            )
        try:
            data = encode_readable(event)  # one unreadable event would make the whole session unreadable
            return data.decode(), len(data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidEventError(event.kind, f"the event cannot be stored as JSON: {error}") from error

    def _tell(self, error: Exception | None) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self.committed, error)
        except Exception:  # a listener's defect must not stop the writer, which all sessions share
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def encoded_items(
    row: SessionRow, items: Iterable[Event | bytes]
) -> Iterator[tuple[Event, str, Sequence[BlobDigest], dict[BlobDigest, bytes]]]:
    """Yield each event with its JSON, the digests it names, and the contents that it is the first to name.

    Only contents among `items` count. Content that no event names is left out.

    Raises:
        InvalidEventError: an event has the wrong position, or JSON cannot represent it.
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
        raise InvalidRequestError(f"session {row.session_id} has no events, so there is nothing to store")


def stamped_row(row: SessionRow, clock: Clock) -> SessionRow:
    """Return the row as it will be stored: without events, with times from the clock for those that are 0.0.

    Raises:
        InvalidRequestError: the id could not name a lock file, or a text in the row is not Unicode.
    """
    check_row(row)
    created = row.created_at or clock.now()
    return replace(row, created_at=created, updated_at=max(created, row.updated_at), events=0, size=0)


def bounded_row(row: SessionRow) -> SessionRow:
    """Return a row from elsewhere with its times limited to those that every calendar has."""
    return replace(row, created_at=bounded_time(row.created_at), updated_at=bounded_time(row.updated_at))


def check_row(row: SessionRow) -> None:
    """Raise InvalidRequestError if the id could not name a lock file, or a text in the row is not Unicode."""
    check_id(row.session_id)
    check_directories((row.cwd, *row.directories))
    check_title(row.title)


def check_directories(paths: Iterable[str]) -> None:
    """Raise InvalidRequestError for a path that no file system could have."""
    for path in paths:
        _check_text("directory", path, "surrogateescape")


def check_id(session_id: SessionId) -> None:
    """Raise InvalidRequestError unless the id is 1 to 128 ASCII letters, digits, `_` and `-`."""
    if not (session_id.isascii() and session_id.replace("_", "").replace("-", "").isalnum()):
        raise InvalidRequestError(f"session id {_shown(session_id)} may contain only ASCII letters, digits, _ and -")
    if len(session_id) > _ID_LIMIT:
        raise InvalidRequestError(
            f"a session id may have at most {_ID_LIMIT} characters; this one has {len(session_id)}"
        )


def check_title(title: str | None) -> None:
    """Raise InvalidRequestError for a title that UTF-8 cannot encode."""
    if title is not None:
        _check_text("title", title, "strict")


def _check_text(what: str, text: str, errors: str) -> None:
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{what} {_shown(text)} is not valid Unicode: {error.reason}") from error
    if "\0" in text:
        raise InvalidRequestError(f"{what} {_shown(text)} must not contain a NUL character")


def _shown(text: str) -> str:
    return cut_line(repr(text), _SHOWN_CHARS)
