"""The vectors of `conformance/specification/vectors/cycles.json`, with their events as ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cli.vectors import OTHERS, event_of, stamped
from engine.log.events import EVENTS, Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.session import PromptQueued, PromptWithdrawn

_PATH = Path(__file__).parents[2] / "conformance" / "specification" / "vectors" / "cycles.json"
IN_CYCLES = (UserMessage, AgentText, AgentReasoning, ToolCall, ToolResult, RunStop, PromptQueued, PromptWithdrawn)
assert all(type(event) in EVENTS and not isinstance(event, IN_CYCLES) for event in OTHERS)


@dataclass(frozen=True)
class Vector:
    name: str
    tags: tuple[str, ...]
    events: tuple[Event, ...]
    expected: dict[str, Any]


def load_vectors() -> tuple[Vector, ...]:
    document = json.loads(_PATH.read_text(encoding="utf-8"))
    return tuple(
        Vector(row["name"], tuple(row["tags"]), stamped([event_of(each) for each in row["events"]]), row["expected"])
        for row in document["vectors"]
    )
