"""Builds what one model call reads: instructions, the View's messages, the worker's tail, with exact token counts.

Owns the cache of message counts (a message never changes). The tail and all counting come from the worker, because
only that side loads the token ranks.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..events import Event
from ..ids import EventId
from ..ports import Environment, HandleRow, Prompt
from ..projection.instructions import instructions
from ..projection.prompt import MESSAGE_OVERHEAD, message_text
from ..view.window import Window

TAIL_SHARE: Final = 8
"""The tail may take this fraction of the budget, and at least TAIL_FLOOR tokens."""
TAIL_FLOOR: Final = 1_024


class Projection(Struct, frozen=True, kw_only=True):
    """One prompt with its cost in tokens: `used` of `size`, and how they divide."""

    prompt: Prompt
    used: int
    size: int
    instruction_tokens: int
    message_tokens: int
    tail_tokens: int
    handles: tuple[HandleRow, ...]


class Projector:
    """Projects one session within `budget` tokens."""

    def __init__(self, view: Window, cwd: str, budget: int) -> None:
        self._view = view
        self._budget = budget
        self._instructions = instructions(cwd)
        self._instruction_tokens: int | None = None
        self._counts: dict[EventId, int] = {}
        self.latest: Projection | None = None

    async def project(self, environment: Environment) -> Projection:
        """The projection of this moment, kept as `latest`."""
        messages = self._view.ready(open_run=True)
        texts, uncounted = self._uncounted(messages)
        part = await environment.project(texts, max(TAIL_FLOOR, self._budget // TAIL_SHARE))
        counts = list(part.text_tokens)
        if self._instruction_tokens is None:
            self._instruction_tokens = counts.pop(0)
        for message, count in zip(uncounted, counts, strict=True):
            self._counts[message.event_id] = count + MESSAGE_OVERHEAD
        message_tokens = sum(self._counts[message.event_id] for message in messages)
        self.latest = Projection(
            prompt=Prompt(instructions=self._instructions, messages=messages, tail=part.tail),
            used=self._instruction_tokens + message_tokens + part.tail_tokens,
            size=self._budget,
            instruction_tokens=self._instruction_tokens,
            message_tokens=message_tokens,
            tail_tokens=part.tail_tokens,
            handles=part.handles,
        )
        return self.latest

    def _uncounted(self, messages: tuple[Event, ...]) -> tuple[list[str], list[Event]]:
        uncounted = [message for message in messages if message.event_id not in self._counts]
        texts = [message_text(message) for message in uncounted]
        return ([self._instructions, *texts] if self._instruction_tokens is None else texts), uncounted
