"""The followUps that wait, first in, first out, and which of them were announced and have no message yet.

Must not know states or cycles. Used by `fold`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...core.ids import MessageId
from ..events.conversation import UserMessage
from .model import Waiting


class FollowUps:
    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self._announced: set[MessageId] = set()

    def announce(self, message_id: MessageId, text: str, since: int) -> None:
        """The prompt waits; its message is to come."""
        self._waiting.append(Waiting(message_id, text, since))
        self._announced.add(message_id)

    def enqueue(self, message: UserMessage, since: int) -> None:
        """The message waits: where it was announced, else at the end."""
        if message.message_id not in self._announced:
            self._waiting.append(Waiting(message.message_id, message.text, since, message))
            return
        self._announced.discard(message.message_id)
        place = self._place(message.message_id)
        self._waiting[place] = replace(self._waiting[place], text=message.text, message=message)

    def take(self, message_id: MessageId) -> Waiting:
        """Removes the first that waits under this id, and returns it. There must be one."""
        taken = self._waiting.pop(self._place(message_id))
        if taken.message is None:
            self._announced.discard(message_id)
        return taken

    def announced(self, message_id: MessageId) -> bool:
        """Whether it waits for its message."""
        return message_id in self._announced

    def holds(self, message_id: MessageId) -> bool:
        return any(waiting.message_id == message_id for waiting in self._waiting)

    @property
    def head(self) -> Waiting | None:
        return self._waiting[0] if self._waiting else None

    @property
    def waiting(self) -> Sequence[Waiting]:
        """Who waits, in the order in which they came."""
        return self._waiting

    def _place(self, message_id: MessageId) -> int:
        return next(place for place, waiting in enumerate(self._waiting) if waiting.message_id == message_id)
