"""The neutral events of `view.json` as ours, and what our View makes of them.

message -> UserMessage; action -> ToolCall (`has_thinking` -> one thinking block); observation -> ToolResult (subtype
reject -> rejected, error -> error, else ok); condensation and condensation_request -> the events of those names.
other -> RunStop: it never enters the View, yet it is part of the conversation, so it ends a tool loop of the log as
the vectors' `other` does. (Runtime events lie inside a call and end nothing.) Ids are kept as event ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ....context.view import View
from ....context.view.well_formed import indices_of
from ....core.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId
from ....log.events import Event
from ....log.events.conversation import (
    Condensation,
    CondensationRequest,
    ResultStatus,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)

_STATUS: Final[dict[str | None, ResultStatus]] = {None: "ok", "reject": "rejected", "error": "error"}


def appended(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The View as its events leave it: ids in their order, where it may be cut, whether a request is open."""
    view = _view(rows)
    return _answer(view, [event.event_id for event in view.events], view.indices)


def ready(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same of the View as a model is given it: what would not be well-formed is left out."""
    view = _view(rows)
    events = view.ready()
    return _answer(view, [event.event_id for event in events], indices_of(events))


def _view(rows: Sequence[dict[str, Any]]) -> View:
    return View.from_events([event_of(row, seq) for seq, row in enumerate(rows)])


def _answer(view: View, ids: Sequence[str], indices: Sequence[int]) -> dict[str, Any]:
    return {
        "view_ids": list(ids),
        "manipulation_indices": list(indices),
        "unhandled_condensation_request": view.unhandled_condensation_request,
    }


def event_of(neutral: dict[str, Any], seq: int) -> Event:
    """The event for one neutral row, stamped with `seq`."""
    stamp: dict[str, Any] = {"seq": Seq(seq), "event_id": EventId(neutral["id"])}
    match neutral["kind"]:
        case "message":
            return UserMessage(**stamp, message_id=MessageId(neutral["id"]), text=neutral["id"])
        case "action":
            return ToolCall(
                **stamp,
                tool_call_id=ToolCallId(neutral["tool_call_id"]),
                tool="python",
                llm_response_id=LlmResponseId(neutral["llm_response_id"]),
                thinking=(ThinkingBlock(text="hm"),) if neutral["has_thinking"] else (),
            )
        case "observation":
            status = _STATUS[neutral.get("subtype")]
            return ToolResult(**stamp, tool_call_id=ToolCallId(neutral["tool_call_id"]), status=status, text="")
        case "condensation":
            return Condensation(
                **stamp,
                forgotten=tuple(EventId(each) for each in neutral["forgotten"]),
                summary=neutral["summary"],
                summary_offset=neutral["summary_offset"],
            )
        case "condensation_request":
            return CondensationRequest(**stamp)
        case "other":
            return RunStop(**stamp, reason="completed", cause="end_turn")
        case kind:
            raise ValueError(f"no event for the neutral kind {kind!r}")
