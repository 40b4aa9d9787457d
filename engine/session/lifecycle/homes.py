"""Which store a session lives in: the durable one, or memory where that cannot take a new one.

A full or read-only disk, a damaged database or one that somebody keeps locked must not keep a person from working: the
session is made all the same, is warned of, and is gone with the process. Must not know what a session is. Called by
`registry`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from ...core.clock import Clock
from ...core.ids import SessionId
from ...log.store_protocol import Place, SessionRow, Store

logger = logging.getLogger(__name__)
SAID_IN_SESSION: Final = {"is_said_in_session": True}
"""Of a log record about what whoever sees the session reads there, too."""
WARNING: Final = "Nothing of this session is kept: it ends with this process. The reason: {reason}."


class Homes:
    """The durable store, and one in memory that is made when it is first needed."""

    def __init__(self, durable: Store, clock: Clock) -> None:
        self.durable: Final = durable
        self._clock = clock
        self._memory: Store | None = None
        self._in_memory: set[SessionId] = set()

    def of(self, session_id: SessionId) -> Store:
        """Where the session is, or would be."""
        if self._memory is not None and session_id in self._in_memory:
            return self._memory
        return self.durable

    def in_memory(self, session_id: SessionId, reason: Exception) -> tuple[Store, str]:
        """Where a new session goes that the durable store did not take, and the warning, which is logged too."""
        if self._memory is None:
            from ...log.store.memory import MemoryStore  # for start-up: hardly any process needs it

            self._memory = MemoryStore(self._clock)
        self._in_memory.add(session_id)
        logger.warning("session %s is in memory only: %s", session_id, reason, extra=SAID_IN_SESSION)
        return self._memory, WARNING.format(reason=reason)

    def beside(self, session_id: SessionId, new: SessionId) -> Store:
        """Where a session is, and a new one that is made of it goes."""
        if session_id in self._in_memory:
            self._in_memory.add(new)
        return self.of(session_id)

    def rows(
        self, cwds: Collection[str] | None, titled: bool, after: Place | None, limit: int | None
    ) -> Sequence[SessionRow]:
        """As `Store.rows`, over both."""
        found = self.durable.rows(cwds=cwds, titled=titled, after=after, limit=limit)
        if self._memory is None:
            return found
        both = [*found, *self._memory.rows(cwds=cwds, titled=titled, after=after, limit=limit)]
        return sorted(both, key=lambda row: (row.updated_at, row.session_id), reverse=True)[:limit]

    def takes_changes(self, session_id: SessionId) -> bool:
        """Whether a change of the session is kept by now; nobody here writes to it afterwards. Raises as `acquire`."""
        store, errors = self.of(session_id), list[Exception]()
        store.release(session_id)
        store.acquire(session_id, lambda _, error: None if error is None else errors.append(error))
        try:
            store.retitle(session_id, store.row(session_id).title)
        finally:
            store.release(session_id)  # which waits until it is kept, or is not
        return not errors

    def directories(self) -> set[str]:
        """The working directories of all sessions."""
        found = set(self.durable.directories())
        return found if self._memory is None else found.union(self._memory.directories())
