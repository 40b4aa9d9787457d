"""What a View is made of: the conversation events a model gets to see, and the summaries that stand for forgotten ones.

Owns the decision which events enter. Must not know of positions, gaps or properties. Called by the View, its
properties and its condensations.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ..events import AgentReasoning, AgentText, Event, ToolCall, ToolResult, UserMessage
from ..ids import EventId

TOOL_EVENTS: Final = (ToolCall, ToolResult)
"""Actions and observations."""


class Summary(Event, frozen=True, kw_only=True):
    """Stands for what a Condensation forgot, with that Condensation's stamp and the id `<its id>-summary`.

    It lives in Views alone: the log holds the Condensation, so this kind is in no registry and is never stored.
    """

    kind: ClassVar[str] = "summary"

    text: str


def summary_id(condensation: EventId) -> EventId:
    """The id under which a later Condensation can forget this one's summary."""
    return EventId(f"{condensation}-summary")


ENTERING: Final[frozenset[type[Event]]] = frozenset((UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult))
"""The kinds of event on a log that become entries, unless they stay out. All others are skipped."""
TEXTS: Final = (UserMessage, AgentText, AgentReasoning, Summary)
"""The kinds of entry that are neither action nor observation."""


def stays_out(event: Event) -> bool:
    """Whether an event of an entering kind is none of the model's business: a statement's own call, or an aside."""
    if isinstance(event, TOOL_EVENTS):
        return event.parent_id is not None
    return isinstance(event, (UserMessage, AgentText)) and event.aside
