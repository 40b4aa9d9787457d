"""A request on its way through a session's queue: what is wanted, and how it ended.

Knows nothing of queues or turns. Made by `Session`, ended by its queue, awaited by the caller that made the request.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from ..core.errors import EngineError
from ..core.ids import MessageId, Seq
from ..log.event_log import EventLog
from ..log.events.conversation import PromptKind, StopCause, UserMessage
from ..log.events.execution import ExecutionFinished
from ..log.user_message import Composed
from .past.requests import ReplayReport


class TurnEnd(Struct, frozen=True):
    """How a request ended.

    `detail` explains cause `error`; `seq` is the last event that belongs to it; `failure` is why it could not be
    carried out or recorded, if so; `execution` is what came of a cell; `unusable` says that the model has to be set up
    before a prompt can be answered. `refused` is why a command changed nothing, which its answer says too; `replay` is
    how a replay went.
    """

    cause: StopCause
    detail: str | None
    seq: Seq
    failure: EngineError | None = None
    execution: ExecutionFinished | None = None
    unusable: bool = False
    refused: EngineError | None = None
    replay: ReplayReport | None = None


class Ticket:
    """A request that was accepted, from that moment until its turn has ended.

    Args:
        message_id: the id of its UserMessage.
        said: what the user typed with what came with it, or a cell's source.
        prompt_kind: whether it starts a turn or waits for one.
        cell: it is one statement from outside a turn, and no model is asked.
        seconds: how long a cell may run; None leaves it to the settings.
        by_client: it is a cell that a client wrote, and not the user.
    """

    def __init__(
        self,
        message_id: MessageId,
        said: Composed,
        prompt_kind: PromptKind,
        *,
        cell: bool = False,
        seconds: float | None = None,
        by_client: bool = False,
    ) -> None:
        self.message_id = message_id
        self.said = said
        self.text = said.text
        self.prompt_kind: PromptKind = prompt_kind
        self.cell = cell
        self.seconds = seconds
        self.by_client = by_client
        self._ended = asyncio.Event()
        self._end: TurnEnd | None = None

    def message(self, prompt_kind: PromptKind, *, aside: bool = False) -> UserMessage:
        """What goes on the log for it, unstamped."""
        return UserMessage(
            message_id=self.message_id,
            text=self.said.text,
            prompt_kind=prompt_kind,
            attachments=self.said.attachments,
            aside=aside,
            content=self.said.content,
        )

    def finish(self, end: TurnEnd) -> None:
        """Says how it ended; only the first call counts."""
        if self._end is None:
            self._end = end
            self._ended.set()

    async def end(self) -> TurnEnd:
        """Waits for the end."""
        await self._ended.wait()
        assert self._end is not None
        return self._end


def end_at(
    log: EventLog,
    cause: StopCause,
    detail: str | None = None,
    *,
    failure: EngineError | None = None,
    execution: ExecutionFinished | None = None,
    unusable: bool = False,
    refused: EngineError | None = None,
    replay: ReplayReport | None = None,
) -> TurnEnd:
    """The end of a request whose last event is the log's last."""
    return TurnEnd(cause, detail, Seq(len(log) - 1), failure, execution, unusable, refused, replay)
