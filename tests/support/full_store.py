"""A store that can be had full, and with room again."""

from __future__ import annotations

from engine.core.clock import SystemClock
from engine.core.errors import StoreError
from engine.core.ids import Seq, SessionId
from engine.log.events import Event
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import CommitListener
from tests.support.sessions import LentStore


class FullStore(LentStore):
    """A store that takes no change while `is_full`."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(SystemClock()))
        self.is_full = False
        self._listeners: dict[SessionId, CommitListener] = {}

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        self._listeners[session_id] = committed
        self._store.acquire(session_id, committed)

    def submit(self, session_id: SessionId, event: Event, *, waits: bool = False) -> None:
        if self.is_full:
            self.fail(session_id)
        else:
            self._store.submit(session_id, event, waits=waits)

    def retitle(self, session_id: SessionId, title: str | None) -> None:
        if self.is_full:
            self.fail(session_id)
        else:
            self._store.retitle(session_id, title)

    def fail(self, session_id: SessionId) -> None:
        """Report that no change of the session can be stored."""
        self._listeners[session_id](Seq(-1), StoreError("the disk is full"))
