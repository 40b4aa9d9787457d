"""What a session's log reads again: its events in the store, as far as they are durable.

They are as the log had them: what has become known as a secret since an event was stored is taken out when it is read.
Must not know who asks. Made by `assembly`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.errors import SessionNotFoundError, StoreError
from ...core.ids import SessionId
from ...log.events import ConversationEvent, Event
from ...log.redaction import Redactor, redact_event
from ...log.store_protocol import Store
from .journal import Journal


class StoredEvents:
    """`event_list.Backing` for one session."""

    def __init__(self, store: Store, session_id: SessionId, journal: Journal, redactor: Redactor) -> None:
        self._store = store
        self._session_id = session_id
        self._journal = journal
        self._redactor = redactor

    @property
    def kept(self) -> int:
        """As in the protocol; what the writer has committed counts when the journal has heard of it."""
        return self._journal.kept

    def between(self, start: int, end: int) -> Sequence[Event]:
        """As in the protocol. Raises StoreError, also where the store has lost events."""
        try:
            found = list(presentable(self._redactor, self._store.load(self._session_id, start, end - start)))
        except SessionNotFoundError as error:  # somebody has deleted it by other means than this program
            raise StoreError(str(error)) from error
        if [event.seq for event in found] != list(range(start, end)):
            raise StoreError(
                f"events {start} to {end - 1} of session {self._session_id} are not in the store as they were;"
                " restore it from a copy"
            )
        return found


def presentable(redactor: Redactor, history: Iterable[Event]) -> Iterable[Event]:
    """The history as a model and a person may read it: it may be older than what is known to be secret.

    Of the timeline nothing changes, because what ran has to run again, and the store still has it.
    """
    if not redactor:
        return history
    return (redact_event(redactor, event) if isinstance(event, ConversationEvent) else event for event in history)
