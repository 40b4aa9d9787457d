"""The neutral events of `cycles.json` as ours, and our request cycles in its form.

What the forms mean is said in that file, under `about`, and in docs/conformance-formats.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from ....core.ids import EventId, ExecutionId, LlmResponseId, MessageId, ObjId, Seq, ToolCallId
from ....log.cycles import cycles_of, to_plain
from ....log.events import Event
from ....log.events.conversation import (
    AgentReasoning,
    AgentText,
    CondensationRequest,
    PromptKind,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ....log.events.execution import EffectRequested
from ....log.events.nodes import TickApplied
from ....log.events.session import (
    ConfigChanged,
    ModeChanged,
    PromptQueued,
    PromptWithdrawn,
    SessionOpened,
    TitleChanged,
    UsageReported,
)

Plain = dict[str, Any]

PROMPT_KINDS: Final[dict[str, PromptKind]] = {"direct": "direct", "steer": "steer", "followUp": "follow_up"}
OTHERS: Final[tuple[Event, ...]] = (
    SessionOpened(cwd="/"),
    UsageReported(used=1, size=2),
    ModeChanged(mode="auto"),
    ConfigChanged(option="while_running", value="steer"),
    TitleChanged(title="t"),
    EffectRequested(execution_id=ExecutionId("x"), ordinal=0, operation="ls", argument_digest=""),
    TickApplied(obj_id=ObjId("v1"), tick_kind="sync", turn_id=0, delta=""),
    CondensationRequest(),
)
"""Of kinds without a part in cycles, by which the vectors name some as `other`."""


def model_of(rows: Sequence[Plain]) -> Plain:
    """The request cycles of neutral events, in the form of the vectors' `expected`. Raises KeyError, TypeError."""
    return neutral(to_plain(cycles_of(stamped([event_of(row) for row in rows]))))


def stamped(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events with the positions and ids that a log would give them."""
    return tuple(replace(event, seq=Seq(at), event_id=EventId(f"e{at}")) for at, event in enumerate(events))


def event_of(row: Plain) -> Event:
    """The event for one neutral row, not stamped."""
    match row["event"]:
        case "user-message":
            kind = PROMPT_KINDS[row["kind"]]
            return UserMessage(message_id=MessageId(row["id"]), text=f"text of {row['id']}", prompt_kind=kind)
        case "agent-output":
            return _output(row)
        case "tool-result":
            return ToolResult(tool_call_id=ToolCallId(row["id"]), status=row["status"], text="")
        case "run-stop":
            return RunStop(reason=row["reason"], cause="end_turn")
        case "prompt-queued":
            return PromptQueued(message_id=MessageId(row["id"]), text=f"text of {row['id']}")
        case "prompt-withdrawn":
            return PromptWithdrawn(message_id=MessageId(row["id"]))
        case _:
            return next((event for event in OTHERS if event.kind == row.get("name")), OTHERS[0])


def _output(row: Plain) -> Event:
    response = LlmResponseId(row["response"]) if "response" in row else None
    if row["item"] == "tool-call":
        return ToolCall(
            tool_call_id=ToolCallId(row["id"]),
            tool=row["tool"],
            llm_response_id=response,
            parent_id=ToolCallId(row["parent"]) if "parent" in row else None,
        )
    cls = AgentText if row["item"] == "assistant" else AgentReasoning
    return cls(message_id=MessageId(row["id"]), text=f"text of {row['id']}", llm_response_id=response)


def neutral(model: Plain) -> Plain:
    """What `to_plain` gave, in the form of the vectors' `expected`."""
    return {
        "state": model["state"],
        "cycles": [_cycle(cycle) for cycle in model["cycles"]],
        "queue": [each["messageId"] for each in model["queue"]],
        "withdrawn": [each["messageId"] for each in model["withdrawn"]],
        "strays": [_id(each) for each in model["strays"]],
        "anomalies": [{"type": each["type"], "at": each["seq"]} for each in model["anomalies"]],
    }


def _cycle(cycle: Plain) -> Plain:
    return {
        "root": {"kind": cycle["root"]["kind"], "id": cycle["root"]["messageId"]},
        "stop": cycle["stop"] and cycle["stop"]["reason"],
        "steps": [_step(step) for step in cycle["steps"]],
        "rounds": [
            {"input": [_id(each) for each in round_["input"]], "output": [_id(each) for each in round_["output"]]}
            for round_ in cycle["rounds"]
        ],
        "unread": [_id(each) for each in cycle["unread"]],
    }


def _step(step: Plain) -> Plain:
    if step["type"] != "ai-block":
        return {"type": step["type"], "message": step["message"]["messageId"]}
    return {
        "type": "ai-block",
        "text": step["text"] and step["text"]["messageId"],
        "statements": [_call(call) for call in step["statements"]],
        "groups": [
            {"type": group["type"], "calls": [_call(call) for call in group["calls"]]} for group in step["groups"]
        ],
    }


def _call(call: Plain) -> list[str | None]:
    return [call["toolCallId"], call["result"] and call["result"]["status"]]


def _id(item: Plain) -> str:
    return item["messageId"] if "messageId" in item else item["toolCallId"]
