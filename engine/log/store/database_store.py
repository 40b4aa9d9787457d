"""A store over a database: the sessions that this process writes, and their changes until they are stored.

It checks, encodes and queues; a `GroupCommit` commits, a `Reader` reads, and `Locks` keep others from writing. `sqlite`
and `postgresql` bring these as `Parts`, which are opened by the first call that needs them. Must not know what events
mean, nor any database. Methods are documented by `Store`; docstrings here add what is special.

A call that may wait for the database never has the mutex meanwhile, so `submit`, which an event loop calls, does not
wait for it. Locks exclude the threads of one process, too, so they need no mutex.
"""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec.structs import replace

from ...core.clock import Clock
from ...core.errors import InvalidRequestError, SessionInUseError, SessionNotFoundError, StoreError
from ...core.ids import BlobDigest, Seq, SessionId
from ..events import Event
from ..redaction import Storable
from ..store_protocol import Collected, CommitListener, Droppable, Owner, Place, SessionRow
from .changes import Append, Content, Create, Listen, Move, Retitle
from .group_commit import GroupCommit
from .schema import digest_of, names_in
from .stored import Wanted, page
from .writable import WritableSession, bounded_row, check_directories, check_title, stamped_row

LockedFree = Callable[[Collection[SessionId]], AbstractContextManager[Collection[SessionId]]]
"""Locks those of the sessions that are not in use, for the block, and returns them."""


class Reader(Protocol):
    """Reads a database from any thread. Every method may raise StoreError, which says what to do."""

    def row(self, session_id: SessionId) -> SessionRow | None:
        """Return the row of the session, or None."""
        ...

    def rows(self, wanted: Wanted) -> Sequence[SessionRow]:
        """Return a page of the sessions."""
        ...

    def directories(self) -> set[str]:
        """Return the working directories of all sessions."""
        ...

    def events(self, session_id: SessionId, since: int, limit: int | None) -> Sequence[Event]:
        """Return the events from position `since` on."""
        ...

    def last(self, row: SessionRow) -> Seq:
        """Return the position of the session's last event, UNSTAMPED if it has none."""
        ...

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        """Return the digests of the contents that the session refers to."""
        ...

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        """Return the contents that the session may drop, the oldest first."""
        ...

    def content(self, digest: BlobDigest) -> bytes:
        """Return the content. Raises KeyError if there is none."""
        ...


class Locks(Protocol):
    """Who writes which session: one store of one process."""

    def acquire(self, session_id: SessionId) -> None:
        """Take the lock at once or not at all. Raises SessionInUseError, StoreError."""
        ...

    def acquire_free(self, sessions: Iterable[SessionId]) -> list[SessionId]:
        """Take the locks of all sessions that are not in use, and return these. Raises StoreError."""
        ...

    def release(self, session_id: SessionId) -> None:
        """Give the lock back; do nothing if it is not held."""
        ...


class Parts(Protocol):
    """An open database. The caller of `add`, `delete`, and `archive` to put away, has the session's lock."""

    @property
    def stored(self) -> Reader: ...

    @property
    def writer(self) -> GroupCommit: ...

    @property
    def locks(self) -> Locks: ...

    def archive(self, session_id: SessionId, archived: bool) -> bool:
        """Put a session away, or bring it back; return False if there is none."""
        ...

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        """Insert a whole session; all or nothing."""
        ...

    def delete(self, session_id: SessionId) -> bool:
        """Delete a session with what only it names; return False if there is none."""
        ...

    def collect(self, old: Sequence[SessionRow], older_than: float, locked_free: LockedFree) -> Collected:
        """Delete the unused sessions of `old` and unreferenced contents, and give the space back.

        Args:
            old: sessions that were last updated before `older_than`.
            older_than: a session that was updated at this time (seconds since the epoch) or later meanwhile stays.
            locked_free: locks those sessions that are not in use.
        """
        ...

    def owners(self) -> Mapping[SessionId, Owner]:
        """Return the process that writes each session in use."""
        ...

    def close(self, acquired: Iterable[SessionId]) -> None:
        """Free everything, after the writer was closed, and give back the locks of these sessions."""
        ...


class DatabaseStore(ABC):
    """Sessions in a database. Every method may raise StoreError (StoreTooNewError), which says what to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.RLock()
        self._opening = threading.Lock()
        self._acquired: dict[SessionId, WritableSession] = {}
        self._opened: Parts | None = None
        self._closed = False

    @abstractmethod
    def _open(self) -> Parts:
        """Open the database, and create what is missing."""

    def create(self, row: SessionRow) -> None:
        """Add a session. A `created_at` of 0.0 becomes the clock's time.

        Raises:
            InvalidRequestError: the id is taken or could not name a file, or a text of the row is not Unicode.
            SessionInUseError: another process is creating a session of that id.
        """
        unstored = stamped_row(row, self._clock)
        parts = self._parts()
        if row.session_id in self._acquired or parts.stored.row(row.session_id) is not None:
            raise _taken(row.session_id)
        with self._locked(parts, row.session_id) as found:
            if found is not None:
                raise _taken(row.session_id)
            self._note_acquired(WritableSession(row.session_id, unstored=unstored))

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        """Make this process the session's writer; after `create`, only attach the listener.

        Raises:
            SessionReadOnlyError: a commit failed between `create` and this call.
            StoreError: the lock cannot be taken.
        """
        parts = self._parts()
        with self._mutex:
            session = self._acquired.get(session_id)
            if session is not None:
                session.attach(committed)
                parts.writer.put(Listen(session))
                return
        if parts.stored.row(session_id) is None:
            raise SessionNotFoundError(session_id)
        with self._locked(parts, session_id) as row:
            if row is None:
                raise SessionNotFoundError(session_id)
            last = parts.stored.last(row)
            self._note_acquired(WritableSession(session_id, last + 1, last, last, committed))

    def release(self, session_id: SessionId) -> None:
        """Let others write; do nothing if it is not acquired. A commit listener must not call this."""
        with self._mutex:
            session = self._acquired.pop(session_id, None)
        if session is not None and self._opened is not None:
            self._opened.writer.drain(giving_up=session)
            self._opened.locks.release(session_id)

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        """Queue an event.

        Raises:
            SessionReadOnlyError: a commit failed; no later event is kept.
            InvalidEventError: it has the wrong position, or JSON cannot represent it; nothing was queued.
            StoreError: the session is not acquired.
        """
        with self._mutex:
            session = self._writable(session_id)
            json, size = session.encoded(event)
            writer = self._parts().writer
            if session.next_seq == 0 and session.unstored is not None:
                writer.put(Create(session, session.unstored), waits=True)
            values = (session_id, event.seq, event.branch_id, event.kind, json)
            names = names_in(json)
            contents = tuple(filter(None, map(writer.unsaved, names))) if names else ()
            at = self._clock.now()
            append = Append(session, values, size, at, names, contents, event.droppable, event.dropped_before)
            writer.put(append, waits=waits)
            session.next_seq += 1

    def flush(self) -> None:
        if self._opened is not None:
            self._opened.writer.flush()

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        """Queue a title. Raises what `submit` raises, and InvalidRequestError for a title that is not Unicode."""
        check_title(title)
        with self._mutex:
            session = self._writable(session_id)
            session.check_writable()
            unstored = session.unstored  # read once, because the writer clears it when it is stored
            if unstored is not None:
                session.unstored = replace(unstored, title=title)
            if session.next_seq:
                self._parts().writer.put(Retitle(session, title))

    def move(self, session_id: SessionId, cwd: str, directories: tuple[str, ...]) -> None:
        """Queue directories. Raises what `submit` raises, and InvalidRequestError for a path that cannot be kept."""
        check_directories((cwd, *directories))
        with self._mutex:
            session = self._writable(session_id)
            session.check_writable()
            unstored = session.unstored  # read once, as in `retitle`
            if unstored is not None:
                session.unstored = replace(unstored, cwd=cwd, directories=directories)
            if session.next_seq:
                self._parts().writer.put(Move(session, cwd, directories))

    def archive(self, session_id: SessionId, archived: bool) -> None:
        # What is in use may be brought back: that ends nobody's work.
        using = self._unused(session_id) if archived else contextlib.nullcontext(self._parts())
        with using as parts:
            if not parts.archive(session_id, archived):
                raise SessionNotFoundError(session_id)

    def load(self, session_id: SessionId, since: int = 0, limit: int | None = None) -> Sequence[Event]:
        """Return committed events. Waits for the commit of those that this process has submitted."""
        parts = self._parts()
        session = self._acquired.get(session_id)
        if session is not None and session.failure is None:
            last = session.next_seq - 1 if limit is None else min(session.next_seq, max(since, 0) + limit) - 1
            if session.committed < last:
                parts.writer.drain()
        found = parts.stored.events(session_id, since, limit)
        if not found:
            self.row(session_id)
        return found

    def row(self, session_id: SessionId) -> SessionRow:
        """Return the committed row, or the one given to `create`. Raises SessionNotFoundError."""
        session = self._acquired.get(session_id)
        unstored = session.unstored if session is not None else None
        row = self._parts().stored.row(session_id) or unstored
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
        wanted = Wanted(cwds, titled, archived, after, limit)
        # Unstored ones first, so that one that is stored meanwhile is not missing from both.
        rows = {row.session_id: row for row in self._unstored()}
        found = self._parts().stored.rows(wanted)
        rows.update((row.session_id, row) for row in found)
        return page(rows.values(), wanted)

    def owners(self) -> Mapping[SessionId, Owner]:
        return self._parts().owners()

    def directories(self) -> Collection[str]:
        unstored = {row.cwd for row in self._unstored()}
        return unstored | self._parts().stored.directories()

    def contents(self, session_id: SessionId) -> frozenset[BlobDigest]:
        return self._parts().stored.contents(session_id)

    def droppable(self, session_id: SessionId) -> Sequence[Droppable]:
        return self._parts().stored.droppable(session_id)

    def add(self, row: SessionRow, items: Iterable[Event | bytes]) -> None:
        self.create(row)
        try:
            self._parts().add(bounded_row(row), items)
        finally:
            self.release(row.session_id)

    def delete(self, session_id: SessionId) -> None:
        with self._unused(session_id) as parts:
            if not parts.delete(session_id):
                raise SessionNotFoundError(session_id)

    def collect(self, older_than: float) -> Collected:
        """Delete old sessions. `freed` is by how much the database has shrunk."""
        old = [row for row in self.rows() if row.updated_at < older_than]
        return self._parts().collect(old, older_than, self._locked_free)

    def blob_put(self, data: Storable) -> BlobDigest:
        """Keep content. Raises InvalidRequestError for more than `schema.MAX_BLOB` bytes."""
        digest = digest_of(data)
        self._parts().writer.keep(Content(digest, bytes(data)))
        return digest

    def blob_get(self, digest: BlobDigest) -> bytes:
        parts = self._parts()
        content = parts.writer.unsaved(digest)
        if content is not None:
            return content.data
        return parts.stored.content(digest)

    def close(self) -> None:
        """Commit what was submitted and release all sessions. A commit listener must not call this."""
        with self._opening, self._mutex:
            self._closed = True
            acquired = tuple(self._acquired)
            self._acquired.clear()
            parts, self._opened = self._opened, None
        if parts is not None:
            parts.writer.close()
            parts.close(acquired)

    def _unstored(self) -> list[SessionRow]:
        """Return the rows of created sessions that have no event in the database yet."""
        found = [session.unstored for session in tuple(self._acquired.values())]
        return [row for row in found if row is not None]

    @contextlib.contextmanager
    def _locked_free(self, sessions: Collection[SessionId]) -> Generator[Collection[SessionId]]:
        """Lock those of the sessions that are not in use, for the block, and return them."""
        locks = self._parts().locks
        locked = locks.acquire_free(each for each in sessions if each not in self._acquired)
        try:
            yield dict.fromkeys(locked)
        finally:
            for session_id in locked:
                locks.release(session_id)

    @contextlib.contextmanager
    def _unused(self, session_id: SessionId) -> Generator[Parts]:
        """Keep all others from writing the session, for the block. Raises SessionNotFoundError, SessionInUseError."""
        parts = self._parts()
        if session_id in self._acquired:
            raise SessionInUseError(session_id, os.getpid())
        if parts.stored.row(session_id) is None:
            raise SessionNotFoundError(session_id)
        parts.locks.acquire(session_id)
        try:
            yield parts
        finally:
            parts.locks.release(session_id)

    def _parts(self) -> Parts:
        parts = self._opened
        if parts is not None:
            return parts
        with self._opening:
            if self._closed:
                raise StoreError("the store is closed; open another one")
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _writable(self, session_id: SessionId) -> WritableSession:
        session = self._acquired.get(session_id)
        if session is None:
            raise StoreError(f"session {session_id} is not open for writing here; acquire it first")
        return session

    def _note_acquired(self, session: WritableSession) -> None:
        with self._mutex:
            if self._closed:
                raise StoreError("the store is closed; open another one")
            self._acquired[session.session_id] = session

    @contextlib.contextmanager
    def _locked(self, parts: Parts, session_id: SessionId) -> Generator[SessionRow | None]:
        """Take the lock, release it only if the block raises, and return the stored row.

        The row is read under the lock, because its last owner may have written, created or deleted the session.
        """
        parts.locks.acquire(session_id)
        try:
            yield parts.stored.row(session_id)
        except BaseException:
            parts.locks.release(session_id)
            raise


def _taken(session_id: SessionId) -> InvalidRequestError:
    return InvalidRequestError(f"session {session_id} exists already; choose another id")
