"""The one thread that commits. Changes queued while it is busy go into its next transaction.

If the commit of a session fails, that session becomes read-only, and the changes of the others are tried again without
it. If the database cannot be reached, or another process keeps it locked, nothing has failed: changes wait in order,
their sessions are told, and the thread tries again until the database is free or the store is closed. Must not decide
what may be written, nor know how: a `Committer` writes.

A change that waits does not wake the thread. Each commit costs one wait for the disk, and waking the thread for the
first of several changes would cost the last one two. A waiting change is queued with the next that does not wait, or by
`flush`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from ...core.errors import StoreBusyError, StoreError, StoreGoneError
from ...core.ids import BlobDigest
from .changes import Append, Barrier, Change, Content
from .writable import WritableSession

_IDLE_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 0.25
"""The pause between two attempts while the database is locked or cannot be reached."""
_log = logging.getLogger(__name__)


class Committer(Protocol):
    """Writes to one database. Only the thread of one `GroupCommit` calls it."""

    def commit(self, changes: Sequence[Change], *, is_retry: bool) -> None:
        """Write the changes in one transaction. When this returns, they are durable; if it raises, none was written.

        Args:
            changes: in order; those of one session may be read-only ones.
            is_retry: the same changes failed temporarily before, perhaps with fewer at the end.
        """
        ...

    def is_temporary(self, error: Exception) -> bool:
        """Return whether the same changes can succeed later, without anything from this process."""
        ...

    def explain(self, error: Exception) -> str:
        """Return a sentence that says what is wrong and what to do."""
        ...

    def delayed(self, error: Exception) -> str:
        """Return a sentence on a temporary error that says until when changes wait."""
        ...

    def rest(self) -> None:
        """Do what is due when there is nothing to commit; called once after commits."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class GroupCommit:
    """Queues changes and has them committed. The first `put` starts a daemon thread, which `close` drains."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._held: list[Change] = []
        """Changes that wait to be queued, in order."""
        self._queue: SimpleQueue[Sequence[Change | Barrier]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._unsaved: dict[BlobDigest, Content] = {}
        self._mutex = threading.Lock()
        self._restless = False
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
        """Wait until all earlier changes are committed, failed or waiting, and listeners know.

        Waiting changes of the session `giving_up` are never written, because others may write to it from now on.
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
        self._committer.close()

    def _give_up(self, session: WritableSession | None) -> None:
        """Drop the waiting changes of the session, or all for None."""
        kept = [] if session is None else [each for each in self._waiting if each.session is not session]
        lost = {each.session.session_id for each in self._waiting} - {each.session.session_id for each in kept}
        self._waiting = kept
        for session_id in sorted(lost):
            _log.error("the last events of session %s were not saved, because the store took none", session_id)

    def _batch(self) -> list[Change | Barrier]:
        seconds = _RETRY_SECONDS if self._waiting else _IDLE_SECONDS if self._restless else None
        batch: list[Change | Barrier] = []
        try:
            batch += self._queue.get(timeout=seconds)
        except Empty:
            if self._waiting:
                return batch
            self._restless = False
            self._committer.rest()
            batch += self._queue.get()
        with contextlib.suppress(Empty):
            while True:
                batch += self._queue.get_nowait()
        return batch

    def _commit(self, batch: Sequence[Change], is_retry: bool) -> None:
        changes = [change for change in batch if change.session.failure is None]
        if not changes:
            return
        error = self._attempt(changes, is_retry)
        if error is None:
            return
        if self._committer.is_temporary(error):
            self._wait(changes, error)
        elif isinstance(error, StoreGoneError):  # all were written, to a file that is gone
            for session in dict.fromkeys(change.session for change in changes):
                self._fail(session, error)
        else:
            self._commit_separately(changes)

    def _wait(self, changes: Sequence[Change], error: Exception) -> None:
        self._waiting += changes
        for session in dict.fromkeys(change.session for change in changes):
            session.delay(StoreBusyError(self._committer.delayed(error)))

    def _attempt(self, changes: Sequence[Change], is_retry: bool = False) -> Exception | None:
        try:
            self._committer.commit(changes, is_retry=is_retry)
        except Exception as error:  # whatever stopped a commit, its sessions must be told
            return error
        self._restless = True
        self._note_committed(changes)
        return None

    def _commit_separately(self, changes: Sequence[Change]) -> None:
        # One by one, so that one session's failure stops no other.
        sessions: dict[WritableSession, list[Change]] = {}
        for change in changes:
            sessions.setdefault(change.session, []).append(change)
        for session, own in sessions.items():
            error = self._attempt(own)
            if error is not None and self._committer.is_temporary(error):
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
        failure = self._committer.explain(error)
        reported = error if isinstance(error, StoreError) else StoreError(failure)
        if reported is not error:
            reported.__cause__ = error
        session.fail(failure, reported)
