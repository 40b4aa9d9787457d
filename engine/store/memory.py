"""`ports.Store` in memory: for tests, and for a host that finds no disk to write to and says so.

Keeps the JSON that the durable store would keep, so that the two can be told apart by nothing but a restart. Commits
are immediate: the listener is called by `submit` itself, on the caller's thread. Must not know what events mean.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from ..errors import InvalidRequestError, SessionNotFoundError, StoreError
from ..events import Event
from ..events.codec import decode
from ..ids import BlobDigest, Seq, SessionId
from ..ports import Clock, CommitListener, SessionRow
from .blobs import digest_of
from .held import Held, check_title, stamped_row


class MemoryStore:
    """Sessions for as long as this object lives. Every method raises StoreError after `close`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.RLock()
        self._held: dict[SessionId, Held] = {}
        self._rows: dict[SessionId, SessionRow] = {}
        self._events: dict[SessionId, list[str]] = {}
        self._blobs: dict[BlobDigest, bytes] = {}
        self._closed = False

    def create(self, row: SessionRow) -> None:
        """As in the port. A `created_at` of 0.0 is filled in from the clock.

        Raises:
            InvalidRequestError: the id is taken or could not name a file, or a text of the row is not Unicode.
        """
        fresh = stamped_row(row, self._clock)
        with self._mutex:
            self._check_open()
            if row.session_id in self._held or row.session_id in self._rows:
                raise InvalidRequestError(f"there is a session {row.session_id} already; choose another id")
            self._held[row.session_id] = Held(row.session_id, fresh=fresh)

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        with self._mutex:
            self._check_open()
            held = self._held.get(session_id)
            if held is not None:
                held.attach(committed)
                held.report()
                return
            row = self._rows.get(session_id)
            if row is None:
                raise SessionNotFoundError(session_id)
            last = Seq(row.events - 1)
            self._held[session_id] = Held(session_id, row.events, last, last, committed)

    def release(self, session_id: SessionId) -> None:
        with self._mutex:
            self._held.pop(session_id, None)

    def submit(self, session_id: SessionId, event: Event) -> None:
        """As in the port.

        Raises:
            InvalidEventError: another position is due, or the event cannot be kept as JSON; nothing was taken.
            StoreError: this store does not hold the session.
        """
        with self._mutex:
            held = self._holding(session_id)
            json = held.encoded(event)
            row = held.fresh or self._rows[session_id]
            held.fresh = None
            held.next_seq += 1
            held.committed = event.seq
            self._rows[session_id] = replace(row, events=held.next_seq, updated_at=self._clock.now())
            self._events.setdefault(session_id, []).append(json)
        held.report()

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """As in the port. Raises StoreError for a session that is not held, InvalidRequestError for bad text."""
        check_title(title)
        with self._mutex:
            held = self._holding(session_id)
            if held.fresh is not None:
                held.fresh = replace(held.fresh, title=title)
            else:
                self._rows[session_id] = replace(self._rows[session_id], title=title)

    def load(self, session_id: SessionId, since: int = 0) -> Sequence[Event]:
        with self._mutex:
            self.row(session_id)
            found = self._events.get(session_id, [])[max(since, 0) :]
        return [decode(json) for json in found]

    def row(self, session_id: SessionId) -> SessionRow:
        """As in the port. Raises SessionNotFoundError."""
        with self._mutex:
            self._check_open()
            held = self._held.get(session_id)
            row = self._rows.get(session_id) or (held.fresh if held is not None else None)
        if row is None:
            raise SessionNotFoundError(session_id)
        return row

    def rows(self) -> Sequence[SessionRow]:
        with self._mutex:
            self._check_open()
            fresh = [held.fresh for held in self._held.values() if held.fresh is not None]
            rows = [*self._rows.values(), *fresh]
        return sorted(rows, key=lambda row: (row.updated_at, row.session_id), reverse=True)

    def blob_put(self, data: bytes) -> BlobDigest:
        """As in the port. Raises InvalidRequestError for more than `blobs.MAX_BLOB` bytes."""
        digest = digest_of(data)
        with self._mutex:
            self._check_open()
            self._blobs[digest] = bytes(data)
        return digest

    def blob_get(self, digest: BlobDigest) -> bytes:
        with self._mutex:
            self._check_open()
            return self._blobs[digest]

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._held.clear()

    def _holding(self, session_id: SessionId) -> Held:
        self._check_open()
        held = self._held.get(session_id)
        if held is None:
            raise StoreError(f"session {session_id} is not open for writing here; acquire it first")
        return held

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open another one")
