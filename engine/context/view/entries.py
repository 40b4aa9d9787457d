"""What a View is made of: the conversation events that a model reads, and the summaries of forgotten ones.

Owns the decision which events enter. Must not know of positions, gaps or properties. Used all over this package, and by
whatever shows or shortens what a model reads.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from ...core.ids import EventId
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    ResultRerendered,
    ToolCall,
    ToolResult,
    UserMessage,
)

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


def summary_of(condensation: Condensation) -> Summary | None:
    """The entry that a Condensation brings into the View; None where it has no summary, or no place for one."""
    if condensation.summary is None or condensation.summary_offset is None:
        return None
    return Summary(
        seq=condensation.seq,
        event_id=summary_id(condensation.event_id),
        at=condensation.at,
        branch_id=condensation.branch_id,
        text=condensation.summary,
    )


def rerendered(result: ToolResult, event: ResultRerendered) -> ToolResult:
    """The entry that takes the place of a result that was rendered anew: where it was, with the new text.

    It has the id of what made it, because texts are known by the ids of entries; whoever knows the old one has the old
    text. The position on the log stays, because that says which loop it belongs to.
    """
    return replace(result, event_id=event.event_id, text=event.text)


Hidden = Callable[[Any], object]

ENTERING: Final[dict[type[Event], Hidden | None]] = {
    UserMessage: attrgetter("aside"),
    AgentText: attrgetter("aside"),
    AgentReasoning: None,
    ToolCall: attrgetter("parent_id"),
    ToolResult: attrgetter("parent_id"),
}
"""The kinds of event on a log that become entries, with the field that is set where one is left out all the same.

Left out are asides, which are not for the model, and calls that a statement made. All other kinds are skipped."""
TEXTS: Final = (UserMessage, AgentText, AgentReasoning, Summary)
"""The kinds of entry that are neither action nor observation."""


# rule:
# The two rules for where a boundary is. One is chosen for each View; its properties ask for it.


class BoundaryRule(Enum):
    """How properties close gaps.

    `GAPS` closes only what would split a unit: the gap before a batch or a loop and the gap after it stay open.
    `POSITIONS` is the published rule (`view.txt`): positions `min..max` of a batch or a loop are closed inclusively, so
    the gap before a unit is closed too; a loop ends only at an event that is neither call nor result; matching closes
    nothing; and enforcement removes no partial loop.
    """

    GAPS = "gaps"
    POSITIONS = "positions"
