"""`session/update`: everything an agent tells an editor about a session unasked.

Source: ACP v1 schema, `SessionUpdate` and its stable variants (tool calls are in `tools`). Lists are always complete;
in `session_info_update` null clears and a field left out is unchanged.
"""

from typing import Annotated, Literal

from pydantic import Field

from acp_adapter.wire.model import WireModel
from acp_adapter.wire.v1.shapes.content import ContentBlock
from acp_adapter.wire.v1.shapes.options import ConfigOption
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallUpdate

Count = Annotated[int, Field(ge=0, lt=2**64)]


class _Chunk(WireModel):
    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(_Chunk):
    session_update: Literal["user_message_chunk"] = "user_message_chunk"


class AgentMessageChunk(_Chunk):
    session_update: Literal["agent_message_chunk"] = "agent_message_chunk"


class AgentThoughtChunk(_Chunk):
    session_update: Literal["agent_thought_chunk"] = "agent_thought_chunk"


class PlanEntry(WireModel):
    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(WireModel):
    session_update: Literal["plan"] = "plan"
    entries: list[PlanEntry]


class CommandInput(WireModel):
    """Free text after the command's name; `hint` is shown until something is typed."""

    hint: str


class AvailableCommand(WireModel):
    name: str
    description: str
    input: CommandInput | None = None


class AvailableCommandsUpdate(WireModel):
    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(WireModel):
    session_update: Literal["current_mode_update"] = "current_mode_update"
    current_mode_id: str


class ConfigOptionUpdate(WireModel):
    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: list[ConfigOption]


class SessionInfoUpdate(WireModel):
    session_update: Literal["session_info_update"] = "session_info_update"
    title: str | None = None
    updated_at: str | None = None


class Cost(WireModel):
    """`currency` is an ISO 4217 code."""

    amount: float
    currency: str


class UsageUpdate(WireModel):
    """Tokens in the context, and how many fit."""

    session_update: Literal["usage_update"] = "usage_update"
    used: Count
    size: Count
    cost: Cost | None = None


class NoticeUpdate(WireModel):
    """Shown live and never replayed; only for clients that advertise `session.notices`."""

    session_update: Literal["notice"] = "notice"
    severity: str
    title: Annotated[str, Field(min_length=1)]
    description: str | None = None


class CompactionUpdate(WireModel):
    """Only for clients that advertise `session.compaction`, like the chunks below."""

    session_update: Literal["compaction_update"] = "compaction_update"
    compaction_id: str
    status: str
    summary: list[ContentBlock] | None = None
    error: str | None = None


class CompactionSummaryChunk(WireModel):
    session_update: Literal["compaction_summary_chunk"] = "compaction_summary_chunk"
    compaction_id: str
    content: ContentBlock


SessionUpdate = Annotated[
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | PlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | NoticeUpdate
    | CompactionUpdate
    | CompactionSummaryChunk,
    Field(discriminator="session_update"),
]


class SessionNotification(WireModel):
    session_id: str
    update: SessionUpdate
