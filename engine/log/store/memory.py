"""A store in memory, for tests and for programs that embed the engine and keep nothing.

It keeps the same JSON as the durable store, so only a restart shows the difference. `submit` commits at once and calls
the listener on the caller's thread. Must not know what events mean.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ...core.clock import Clock
from ...core.errors import InvalidRequestError, SessionInUseError, SessionNotFoundError, StoreError
from ...core.ids import BlobDigest, Seq, SessionId
from ..events import Event
from ..events.codec import decode
from ..redaction import Storable
from ..store_protocol import Collected, CommitListener, Droppable, Owner, Place, SessionRow
from .schema import digest_of, names_in, pack, unpack
from .stored import Wanted, page
from .writable import WritableSession, bounded_row, check_directories, check_title, encoded_items, stamped_row


@dataclass(slots=True)
class _Reference:
    """A reference to content, as the table `refs` of a database has it."""

    last: Seq
    droppable: bool


class MemoryStore:
    """Sessions for as long as this object lives. Every method raises StoreError after `close`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.RLock()
        self._acquired: dict[SessionId, WritableSession] = {}
        self._rows: dict[SessionId, SessionRow] = {}
        self._events: dict[SessionId, list[str]] = {}
        self._blobs: dict[BlobDigest, bytes] = {}
        self._unnamed: set[BlobDigest] = set()
        self._refs: dict[SessionId, dict[BlobDigest, _Reference]] = {}
        self._closed = False

    @property
    def is_remote(self) -> bool:
        return False

    def create(self, row: SessionRow) -> None:
        """Add a session. A `created_at` of 0.0 becomes the clock's time.

        Raises:
            InvalidRequestError: the id is taken or could not name a file, or a text of the row is not Unicode.
        """
        unstored = stamped_row(row, self._clock)
        with self._mutex:
            self._check_open()
            if row.session_id in self._acquired or row.session_id in self._rows:
                raise InvalidRequestError(f"session {row.session_id} exists already; choose another id")
            self._acquired[row.session_id] = WritableSession(row.session_id, unstored=unstored)

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        with self._mutex:
            self._check_open()
            session = self._acquired.get(session_id)
            if session is not None:
                session.attach(committed)
                session.report()
                return
            row = self._rows.get(session_id)
            if row is None:
                raise SessionNotFoundError(session_id)
            last = Seq(row.events - 1)
            self._acquired[session_id] = WritableSession(session_id, row.events, last, last, committed)

    def release(self, session_id: SessionId) -> None:
        with self._mutex:
            self._acquired.pop(session_id, None)

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        """As in the protocol.

        Raises:
            InvalidEventError: another position is due, or the event cannot be kept as JSON; nothing was taken.
            StoreError: this store does not hold the session.
        """
        del waits
        with self._mutex:
            session = self._writable(session_id)
            json, _ = session.encoded(event)
            row = session.unstored or self._rows[session_id]
            session.unstored = None
            session.next_seq += 1
            session.committed = event.seq
            names = names_in(json)
            self._keep(session_id, event, json, names)
            self._unnamed.difference_update(names)
            row = replace(row, events=session.next_seq, updated_at=self._clock.now())
            self._rows[session_id] = self._sized(row, row.size - row.contents_size + len(json.encode()))
        session.report()

    def flush(self) -> None:
        """As in the protocol: nothing waits here."""

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """As in the protocol. Raises StoreError if the session is not acquired, InvalidRequestError for bad text."""
        check_title(title)
        with self._mutex:
            session = self._writable(session_id)
            if session.unstored is not None:
                session.unstored = replace(session.unstored, title=title)
            else:
                self._rows[session_id] = replace(self._rows[session_id], title=title)

    def move(self, session_id: SessionId, cwd: str, directories: tuple[str, ...]) -> None:
        """As in the protocol. Raises what `retitle` raises."""
        check_directories((cwd, *directories))
        with self._mutex:
            session = self._writable(session_id)
            if session.unstored is not None:
                session.unstored = replace(session.unstored, cwd=cwd, directories=directories)
            else:
                self._rows[session_id] = replace(self._rows[session_id], cwd=cwd, directories=directories)

    def archive(self, session_id: SessionId, archived: bool) -> None:
        with self._mutex:
            self._check_open()
            if archived and session_id in self._acquired:
                raise SessionInUseError(session_id, os.getpid())
            if session_id not in self._rows:
                raise SessionNotFoundError(session_id)
            self._rows[session_id] = replace(self._rows[session_id], archived=archived)

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        with self._mutex:
            self.row(session_id)
            found = self._events.get(session_id, [])[max(since, 0) :][:limit]
        return [decode(json) for json in found]

    def row(self, session_id: SessionId) -> SessionRow:
        """As in the protocol. Raises SessionNotFoundError."""
        with self._mutex:
            self._check_open()
            session = self._acquired.get(session_id)
            row = self._rows.get(session_id) or (session.unstored if session is not None else None)
        if row is None:
            raise SessionNotFoundError(session_id)
        return row

    def rows(
        self,
        *,
        cwds: Collection[str] | None = None,
        titled: bool = False,
        archived: bool | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> Sequence[SessionRow]:
        with self._mutex:
            rows = self._all()
        return page(rows, Wanted(cwds, titled, archived, after, limit))

    def owners(self) -> Mapping[SessionId, Owner]:
        with self._mutex:
            self._check_open()
            return dict.fromkeys(self._acquired, Owner(os.getpid()))

    def directories(self) -> Collection[str]:
        with self._mutex:
            return {row.cwd for row in self._all()}

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        with self._mutex:
            self._check_open()
            return frozenset(self._refs.get(session_id, ()))

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        with self._mutex:
            self._check_open()
            found = [(ref.last, len(self._blobs[digest])) for digest, ref in self._droppable(session_id)]
        return [Droppable(seq=seq, size=size) for seq, size in sorted(found)]

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        self.create(row)
        try:
            found = list(encoded_items(row, items))
            with self._mutex:
                for event, json, names, contents in found:
                    self._blobs.update({digest: pack(data) for digest, data in contents.items()})
                    self._keep(row.session_id, event, json, names)
                size = sum(len(json.encode()) for _, json, _, _ in found)
                self._rows[row.session_id] = self._sized(replace(bounded_row(row), events=len(found)), size)
        finally:
            self.release(row.session_id)

    def delete(self, session_id: SessionId) -> None:
        with self._mutex:
            self._check_open()
            if session_id in self._acquired:
                raise SessionInUseError(session_id, os.getpid())
            if self._rows.pop(session_id, None) is None:
                raise SessionNotFoundError(session_id)
            self._events.pop(session_id, None)
            self._free(self._refs.pop(session_id, {}))

    def collect(self, older_than: float) -> Collected:
        """As in the protocol. `freed` is too large if a remaining session has the same contents."""
        with self._mutex:
            self._check_open()
            old = [row for row in self._rows.values() if row.updated_at < older_than]
            gone = [row for row in old if row.session_id not in self._acquired]
            for row in gone:
                self.delete(row.session_id)
        in_use = tuple(row.session_id for row in old if row not in gone)
        deleted = tuple(row.session_id for row in gone)
        return Collected(deleted=deleted, in_use=in_use, freed=sum(row.size for row in gone))

    def blob_put(self, data: Storable) -> BlobDigest:
        """Keep content. Raises InvalidRequestError for more than `schema.MAX_BLOB` bytes."""
        digest = digest_of(data)
        with self._mutex:
            self._check_open()
            self._blobs[digest] = pack(bytes(data))
            self._unnamed.add(digest)
        return digest

    def blob_get(self, digest: BlobDigest) -> bytes:
        with self._mutex:
            self._check_open()
            return unpack(digest, self._blobs[digest])

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._acquired.clear()

    def _keep(self, session_id: SessionId, event: Event, json: str, names: Iterable[BlobDigest]) -> None:
        self._events.setdefault(session_id, []).append(json)
        refs = self._refs.setdefault(session_id, {})
        for digest in names:
            if digest in self._blobs:
                ref = refs.setdefault(digest, _Reference(event.seq, event.droppable))
                ref.last, ref.droppable = event.seq, ref.droppable and event.droppable
        if event.dropped_before is not None:
            old = [digest for digest, ref in self._droppable(session_id) if ref.last < event.dropped_before]
            for digest in old:
                del refs[digest]
            self._free(old)

    def _sized(self, row: SessionRow, events_size: int) -> SessionRow:
        """Return the row with the sizes of its session's contents."""
        contents = sum(len(self._blobs[digest]) for digest in self._refs.get(row.session_id, ()))
        droppable = sum(len(self._blobs[digest]) for digest, _ in self._droppable(row.session_id))
        return replace(row, size=events_size + contents, contents_size=contents, droppable_size=droppable)

    def _droppable(self, session_id: SessionId) -> list[tuple[BlobDigest, _Reference]]:
        return [(digest, ref) for digest, ref in self._refs.get(session_id, {}).items() if ref.droppable]

    def _free(self, digests: Iterable[BlobDigest]) -> None:
        """Delete contents without references, except those that were just put."""
        for digest in set(digests).difference(self._unnamed, *self._refs.values()):
            del self._blobs[digest]

    def _writable(self, session_id: SessionId) -> WritableSession:
        self._check_open()
        session = self._acquired.get(session_id)
        if session is None:
            raise StoreError(f"session {session_id} is not open for writing here; acquire it first")
        return session

    def _all(self) -> list[SessionRow]:
        self._check_open()
        unstored = [session.unstored for session in self._acquired.values() if session.unstored is not None]
        return [*self._rows.values(), *unstored]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open another one")
