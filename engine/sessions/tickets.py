"""A prompt on its way through a session: what the user wants to know of it, and how it ended.

Knows nothing of queues or turns. Made and settled by `Session`, awaited by the adapters.
"""

from __future__ import annotations

import anyio
from msgspec import Struct

from ..errors import EngineError
from ..events.conversation import Attachment, PromptKind, StopCause
from ..ids import MessageId, Seq


class TurnEnd(Struct, frozen=True):
    """How a prompt ended.

    `detail` explains cause `error`; `seq` is the last event that belongs to it; `failure` is why the turn could not be
    carried out or recorded, if so.
    """

    cause: StopCause
    detail: str | None
    seq: Seq
    failure: EngineError | None = None


class Ticket:
    """A prompt that was accepted, from the moment its line was read until its turn has ended."""

    def __init__(
        self, message_id: MessageId, text: str, attachments: tuple[Attachment, ...], prompt_kind: PromptKind
    ) -> None:
        self.message_id = message_id
        self.text = text
        self.attachments = attachments
        self.prompt_kind: PromptKind = prompt_kind
        self._ended = anyio.Event()
        self._end: TurnEnd | None = None

    def settle(self, end: TurnEnd) -> None:
        """Says how it ended; the first word counts."""
        if self._end is None:
            self._end = end
            self._ended.set()

    async def end(self) -> TurnEnd:
        """Waits for the end."""
        await self._ended.wait()
        assert self._end is not None
        return self._end
