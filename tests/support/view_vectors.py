"""The vectors of `tests/vectors/view.json`, with their neutral kinds as events of this program.

message -> UserMessage; action -> ToolCall (`has_thinking` -> one thinking block); observation -> ToolResult (subtype
reject -> rejected, error -> error, else ok); condensation and condensation_request -> the events of those names.
other -> RunStop: it never enters the View, yet it is part of the conversation, so it ends a tool loop of the log as
the vectors' `other` does. (Runtime events lie inside a call and end nothing.) Ids are kept as event ids.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.events import Event
from engine.events.conversation import (
    Condensation,
    CondensationRequest,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from engine.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId

_PATH = Path(__file__).parent.parent / "vectors" / "view.json"
_STATUS = {None: "ok", "reject": "rejected", "error": "error"}


@dataclass(frozen=True)
class Expected:
    view_ids: tuple[str, ...]
    manipulation_indices: tuple[int, ...]
    unhandled_condensation_request: bool


@dataclass(frozen=True)
class Vector:
    name: str
    tags: tuple[str, ...]
    events: tuple[Event, ...]
    appended: Expected
    enforced: Expected


def load_vectors() -> tuple[Vector, ...]:
    document = json.loads(_PATH.read_text(encoding="utf-8"))
    return tuple(
        Vector(
            name=row["name"],
            tags=tuple(row["tags"]),
            events=tuple(event_of(neutral, seq) for seq, neutral in enumerate(row["events"])),
            appended=_expected(row["expected"]["appended"]),
            enforced=_expected(row["expected"]["enforced"]),
        )
        for row in document["vectors"]
    )


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


def _expected(row: dict[str, Any]) -> Expected:
    return Expected(tuple(row["view_ids"]), tuple(row["manipulation_indices"]), row["unhandled_condensation_request"])
