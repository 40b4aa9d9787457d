"""The entries of a View: conversation events that a model reads, and summaries of forgotten ones.

Owns which events enter. Must not know positions, gaps or properties. Used all over this package, and by code that
shows or shortens what a model reads.
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
    """Replaces the events that a Condensation forgot.

    It has that event's stamp and the id `<its id>-summary`.

    It exists in Views only: the log has the Condensation, so this kind is not registered and never stored.
    """

    kind: ClassVar[str] = "summary"

    text: str


def summary_id(condensation: EventId) -> EventId:
    """Return the id by which a later Condensation can forget this summary."""
    return EventId(f"{condensation}-summary")


def summary_of(condensation: Condensation) -> Summary | None:
    """Return the entry of a Condensation.

    Returns None without a summary or a place for it.
    """
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
    """Return the entry that replaces a result with its new render, in the same place.

    Its id is that of the new event, because entry ids identify texts. Its position on the log stays, because that
    decides which loop it belongs to.
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
"""Kinds of log events that become entries, with the field that excludes an event if it is set.

Excluded are asides, which are not for the model, and calls by statements. All other kinds are skipped.
"""
TEXTS: Final = (UserMessage, AgentText, AgentReasoning, Summary)
"""Kinds of entries that are neither actions nor observations."""


# --- boundary rules --------------------------------------------------------------------------------------------------


class BoundaryRule(Enum):
    """How properties close gaps; each View has one rule.

    `GAPS` closes only gaps that would split a unit: those before and after a batch or loop stay open. `POSITIONS` is
    the published rule (`view.txt`): positions `min..max` of a batch or loop are closed inclusively, so the gap before a
    unit is closed too; a loop ends only at an event that is neither call nor result; matching closes nothing; and
    enforcement removes no partial loop.
    """

    GAPS = "gaps"
    POSITIONS = "positions"
