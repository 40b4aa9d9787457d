"""The shapes of `session/update` and of tool calls.

Source: ACP v1 schema, `SessionUpdate`, `ToolCall`, `ToolCallUpdate` and the types they use. In a patch an omitted field
is unchanged, and a list replaces the previous one. In `session_info_update` null clears a field.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from acp_adapter.content import ContentBlock
from acp_adapter.options import ConfigOption
from acp_adapter.wire import WireModel

Update = WireModel
"""Any update of a session."""
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed", "cancelled"]
"""Version 1 has no `cancelled`, and sends `failed`."""


class Content(WireModel):
    type: Literal["content"] = "content"
    content: ContentBlock


class Diff(WireModel):
    """A change of a file: absolute path; `old_text` is null for a new file.

    Version 1 sends neither `line`, where the old text begins, from 1, nor `is_removal`: the file is removed.
    """

    type: Literal["diff"] = "diff"
    path: str
    new_text: str
    old_text: str | None = None
    line: Annotated[int, Field(exclude=True)] = 1
    is_removal: Annotated[bool, Field(exclude=True)] = False


class Terminal(WireModel):
    """A terminal that the client draws."""

    type: Literal["terminal"] = "terminal"
    terminal_id: str


ToolCallContent = Annotated[Content | Diff | Terminal, Field(discriminator="type")]


class ToolCallLocation(WireModel):
    """A place in a file: absolute path, 1-based line."""

    path: str
    line: Annotated[int, Field(ge=0)] | None = None


class ToolCall(WireModel):
    """A new tool call, as `session/update` announces it."""

    session_update: Literal["tool_call"] = "tool_call"
    tool_call_id: str
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: list[ToolCallContent] = Field(default_factory=list[ToolCallContent])
    locations: list[ToolCallLocation] = Field(default_factory=list[ToolCallLocation])
    raw_input: Any = None
    raw_output: Any = None


class ToolCallPatch(WireModel):
    """A change of a tool call; in `session/request_permission`, the tool call that needs permission."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: list[ToolCallContent] | None = None
    locations: list[ToolCallLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None


class ToolCallUpdate(ToolCallPatch):
    """A patch, as `session/update` sends it."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


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


class CommandInput(WireModel):
    """Free text after the command's name; the client shows `hint` until the user types."""

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


class Notice(WireModel):
    """Shown now, and never again. Only for clients that advertise `session.notices`."""

    session_update: Literal["notice"] = "notice"
    severity: Literal["info", "warning", "error"]
    title: str
    description: str | None = None


class PlanEntry(WireModel):
    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(WireModel):
    """The whole plan, which replaces the last one."""

    session_update: Literal["plan"] = "plan"
    entries: list[PlanEntry]


class CompactionUpdate(WireModel):
    """A condensation. Only for clients that advertise `session.compaction`, and all of version 2."""

    session_update: Literal["compaction_update"] = "compaction_update"
    compaction_id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    summary: list[ContentBlock] | None = None
    error: str | None = None


class UsageUpdate(WireModel):
    """Tokens in the context, and its limit."""

    session_update: Literal["usage_update"] = "usage_update"
    used: Count
    size: Count
    cost: Cost | None = None
