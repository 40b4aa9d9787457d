"""What a model has read, as one fact: a fold over the log that says up to which position, and how often it read.

A model has read what a call carried as soon as that call began to answer. A call that failed, was refused or was
cancelled before that has read nothing, and neither has whoever looks. Each call leaves a ProjectionSent that says at
which position of the log its prompt was made, and a ModelCallEnded that says whether it was answered: what happened
after that position, while the model was answering, it has not read. Where the host was lost during a call, the repair
of the log ends it, as answered where the log has something of the answer. In logs of earlier versions one event says
both, at the end of the call, and a RunStop closes what a lost host left open; or UsageReported does, where each call
counted.

Followed by `context.tail.feed` and by `replay`, so that what a tail tells and what handles take for read are never two
opinions.
"""

from __future__ import annotations

from typing import Final

from ..events import Event
from ..events.conversation import AgentReasoning, AgentText, RunStop, ToolCall
from ..events.session import ModelCallEnded, ProjectionSent, UsageReported

READING: Final = frozenset(
    (AgentText, AgentReasoning, ToolCall, RunStop, ProjectionSent, ModelCallEnded, UsageReported)
)
"""The kinds of event that say something about readings."""


class Readings:
    """`count` grows with each reading. The events before position `until` are read."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self.count = 0
        self.until = 0
        self._begun: int | None = None
        """Where an answer began whose call has not ended."""
        self._position = 0
        """Of the prompt of the call that has not ended."""

    def apply(self, event: Event) -> None:
        """For the log alone."""
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
        if type(event) in READING:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case AgentText(aside=False) | AgentReasoning() | ToolCall(parent_id=None):
                self._begun = event.seq if self._begun is None else self._begun
            case ProjectionSent(answered=answered, position=position):
                self._begun, self._position = None, position
                if answered:
                    self._read(position)
            case ModelCallEnded(answered=answered):
                self._begun = None
                if answered:
                    self._read(self._position)
            case UsageReported():
                self._begun = None
                self._read(event.seq)
            case RunStop() if self._begun is not None:
                begun, self._begun = self._begun, None
                self._read(begun)
            case _:
                pass

    def _read(self, until: int) -> None:
        self.count += 1
        self.until = max(self.until, until)
