"""The one thread that writes to a database. Changes queued while it is busy go into its next transaction.

If the commit of a session fails, that session becomes read-only, and the changes of the others are tried again without
it. If another process keeps the whole database locked, nothing has failed: changes wait in order, their sessions are
told, and the thread tries again until the database is free or the store is closed. A position is reported only after
COMMIT returned and the path still names the file that was written. Must not decide what may be written; `sqlite` does.

A change that waits does not wake the thread. Each commit costs one wait for the disk, and waking the thread for the
first of several changes would cost the last one two. A waiting change is queued with the next that does not wait, or by
`flush`.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from typing import Final

from ...core.errors import StoreBusyError, StoreError, StoreGoneError
from ...core.ids import BlobDigest
from ..events import Event
from ..store_protocol import SessionRow
from .changes import INSERT_EVENT, UPDATE_SESSION, Append, Barrier, Change, Content, References
from .database import Database, explain, is_busy, retry_while_busy
from .stored import INSERT_SESSION, row_values
from .writable import WritableSession, encoded_items

_IDLE_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 0.25
"""The pause between two attempts while another process keeps the database locked."""
_ROWS: Final = 500
"""How many events one statement inserts; more is no faster and takes memory."""
_log = logging.getLogger(__name__)


class Writer:
    """Queues and commits changes. The first `put` starts a daemon thread, which `close` drains."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: list[Change] = []
        """Changes that wait to be queued, in order."""
        self._queue: SimpleQueue[Sequence[Change | Barrier]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._unsaved: dict[BlobDigest, Content] = {}
        self._mutex = threading.Lock()
        self._uncheckpointed = False
        self._waiting: list[Change] = []

    def put(self, change: Change, *, waits: bool = False) -> None:
        """Queue the change, and start a commit unless it waits; return at once."""
        with self._mutex:
            self._held.append(change)
            if not waits:
                self._queue_held()

    def flush(self) -> None:
        """Start the commit of waiting changes; return at once."""
        with self._mutex:
            if self._held:
                self._queue_held()

    def _queue_held(self, *barriers: Barrier) -> None:
        # Called with the mutex, so that the queue keeps the order of the changes.
        held, self._held = self._held, []
        self._queue.put((*held, *barriers))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rewindow-store", daemon=True)
            self._thread.start()

    def keep(self, content: Content) -> None:
        """Keep content in memory until an event that names it is committed."""
        with self._mutex:
            self._unsaved[content.digest] = content

    def unsaved(self, digest: BlobDigest) -> Content | None:
        """Return content that waits for an event that names it, or for that event's commit."""
        return self._unsaved.get(digest)

    def drain(self, giving_up: WritableSession | None = None) -> None:
        """Wait until all earlier changes are committed, failed or blocked by another process, and listeners know.

        Blocked changes of the session `giving_up` are never written, because others may write to it from now on.
        """
        if self._thread is threading.current_thread():
            return
        barrier = Barrier(giving_up)
        with self._mutex:
            if self._thread is None and not self._held:
                return
            self._queue_held(barrier)
        barrier.passed.wait()

    def close(self) -> None:
        """Drain and end the thread. Nothing may be put any more."""
        with self._mutex:
            if self._thread is None and not self._held:
                return
            self._queue_held(Barrier(last=True))
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = self._batch()
            waiting, self._waiting = self._waiting, []
            self._commit([*waiting, *(item for item in batch if not isinstance(item, Barrier))], bool(waiting))
            for barrier in (item for item in batch if isinstance(item, Barrier)):
                ended = ended or barrier.last
                if barrier.last or barrier.giving_up is not None:
                    self._give_up(barrier.giving_up)
                barrier.passed.set()
        if self._connection is not None:
            self._connection.close()

    def _give_up(self, session: WritableSession | None) -> None:
        """Drop the blocked changes of the session, or all for None."""
        kept = [] if session is None else [each for each in self._waiting if each.session is not session]
        lost = {each.session.session_id for each in self._waiting} - {each.session.session_id for each in kept}
        self._waiting = kept
        for session_id in sorted(lost):
            _log.error(
                "the last events of session %s were not saved: another process kept the store locked", session_id
            )

    def _batch(self) -> list[Change | Barrier]:
        seconds = _RETRY_SECONDS if self._waiting else _IDLE_SECONDS if self._uncheckpointed else None
        batch: list[Change | Barrier] = []
        try:
            batch += self._queue.get(timeout=seconds)
        except Empty:
            if self._waiting:
                return batch
            self._checkpoint()
            batch += self._queue.get()
        with contextlib.suppress(Empty):
            while True:
                batch += self._queue.get_nowait()
        return batch

    def _checkpoint(self) -> None:
        # PASSIVE, because after TRUNCATE the file has to grow again: commits then took 0.20-0.28 ms instead of 0.16.
        # A failure loses nothing, because the WAL still has everything; the next idle moment tries again.
        self._uncheckpointed = False
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _commit(self, batch: Sequence[Change], is_retry: bool) -> None:
        changes = [change for change in batch if change.session.failure is None]
        if not changes:
            return
        error = self._attempt(changes, is_retry)
        if error is None:
            return
        if is_busy(error):
            self._wait(changes, error)
        elif isinstance(error, StoreGoneError):  # all were written, to a file that is gone
            for session in dict.fromkeys(change.session for change in changes):
                self._fail(session, error)
        else:
            self._commit_separately(changes)

    def _wait(self, changes: Sequence[Change], error: Exception) -> None:
        self._waiting += changes
        for session in dict.fromkeys(change.session for change in changes):
            session.delay(
                StoreBusyError(f"{explain(self._database.path, error)}; new events are saved when the lock is released")
            )

    def _attempt(self, changes: Sequence[Change], is_retry: bool = False) -> Exception | None:
        try:
            self._transact(changes, is_retry)
        except Exception as error:  # whatever stopped a commit, its sessions must be told
            return error
        self._note_committed(changes)
        return None

    def _transact(self, changes: Sequence[Change], is_retry: bool) -> None:
        if self._connection is None:
            self._database.in_place.check()  # SQLite would create a missing file
            self._connection = self._database.connect()
        connection = self._connection
        if is_retry:  # one attempt, so that callers who wait for the writer do not wait longer
            connection.execute("BEGIN IMMEDIATE")
        else:
            retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            self._database.check_version(connection)
            self._write(connection, changes)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self._uncheckpointed = True
        self._database.in_place.check_commit()

    def _write(self, connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
        appends = [change for change in changes if isinstance(change, Append)]
        for change in changes:
            if not isinstance(change, Append):
                change.write(connection)
        for content in {content.digest: content for change in appends for content in change.contents}.values():
            content.write(connection)
        connection.executemany(INSERT_EVENT, [change.values for change in appends])
        grown: dict[WritableSession, int] = {}
        last: dict[WritableSession, Append] = {}
        for change in appends:
            session = change.session
            last[session] = change
            grown[session] = grown.get(session, 0) + change.size
        references = {session: References(connection, session.session_id) for session in last}
        for change in appends:
            if change.names:
                references[change.session].name(change.names, change.values[1], change.droppable)
            if change.dropped_before is not None:
                references[change.session].drop(change.dropped_before)
        for session, change in last.items():
            own = references[session]
            own.free()
            sizes = (grown[session] + own.contents, own.contents, own.droppable)
            connection.execute(UPDATE_SESSION, (change.values[1] + 1, change.at, *sizes, session.session_id))

    def _commit_separately(self, changes: Sequence[Change]) -> None:
        # One by one, so that one session's failure stops no other.
        sessions: dict[WritableSession, list[Change]] = {}
        for change in changes:
            sessions.setdefault(change.session, []).append(change)
        for session, own in sessions.items():
            error = self._attempt(own)
            if error is not None and is_busy(error):
                self._wait(own, error)
            elif error is not None:
                self._fail(session, error)

    def _note_committed(self, changes: Iterable[Change]) -> None:
        last: dict[WritableSession, Change] = {}
        for change in changes:
            if not isinstance(change, Append):
                last.setdefault(change.session, change)
                continue
            last[change.session] = change
            if change.contents:
                self._forget(change.contents)
        for session, change in last.items():
            if isinstance(change, Append):
                session.committed = change.values[1]
                session.unstored = None
            session.report()

    def _forget(self, contents: Iterable[Content]) -> None:
        # Only the same object: equal content that was put again waits for a later event, which must not rely on the
        # stored copy, because that may be deleted before.
        with self._mutex:
            for content in contents:
                if self._unsaved.get(content.digest) is content:
                    del self._unsaved[content.digest]

    def _fail(self, session: WritableSession, error: Exception) -> None:
        failure = explain(self._database.path, error)
        reported = error if isinstance(error, StoreError) else StoreError(failure)
        if reported is not error:
            reported.__cause__ = error
        session.fail(failure, reported)


def write_session(connection: Connection, row: SessionRow, items: Iterable[Event | bytes]) -> None:
    """Insert a whole session from elsewhere.

    The caller has the session's lock and has begun the transaction, and rolls it back if this raises. Raises what
    `encoded_items` and `items` raise.
    """
    connection.execute(INSERT_SESSION, row_values(row))
    rows: list[tuple[str, int, str, str, str]] = []
    references = References(connection, row.session_id)
    events = size = 0
    for event, json, names, contents in encoded_items(row, items):
        for digest, data in contents.items():
            Content(digest, data).write(connection)
        references.name(names, event.seq, event.droppable)
        if event.dropped_before is not None:
            references.drop(event.dropped_before)
        size += len(json.encode())
        events += 1
        rows.append((row.session_id, event.seq, event.branch_id, event.kind, json))
        if len(rows) == _ROWS:
            connection.executemany(INSERT_EVENT, rows)
            rows.clear()
    connection.executemany(INSERT_EVENT, rows)
    references.free()
    sizes = (size + references.contents, references.contents, references.droppable)
    connection.execute(UPDATE_SESSION, (events, row.updated_at, *sizes, row.session_id))
