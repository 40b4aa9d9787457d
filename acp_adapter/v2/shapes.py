"""The shapes of `session/update` and of tool calls that differ from version 1.

Source: ACP v2 schema, `SessionUpdate`, `ToolCallUpdate`, `StateUpdate`, `TerminalUpdate` and the types they use. In a
patch an omitted field is unchanged, null clears it, and a list replaces the previous one.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from acp_adapter.content import ContentBlock
from acp_adapter.requests import StopReason
from acp_adapter.updates.shapes import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionUpdate,
    Content,
    Notice,
    PlanEntry,
    SessionInfoUpdate,
    Terminal,
    ToolCallLocation,
    ToolKind,
    UsageUpdate,
)
from acp_adapter.v2.options import AvailableCommand, ConfigOption
from acp_adapter.wire import WireModel

UNCHANGED: Final = (
    *(AgentMessageChunk, AgentThoughtChunk, CompactionUpdate),
    *(Notice, SessionInfoUpdate, UsageUpdate),
)
"""Updates that this version sends as they are."""


class _Message(WireModel):
    """A whole message, which replaces what was sent of it. Chunks that follow are appended."""

    message_id: str
    content: list[ContentBlock]


class UserMessage(_Message):
    session_update: Literal["user_message"] = "user_message"


class AgentMessage(_Message):
    session_update: Literal["agent_message"] = "agent_message"


class AgentThought(_Message):
    session_update: Literal["agent_thought"] = "agent_thought"


class Error(WireModel):
    code: int
    message: str


class RunningUpdate(WireModel):
    session_update: Literal["state_update"] = "state_update"
    state: Literal["running"] = "running"


class RequiresActionUpdate(WireModel):
    session_update: Literal["state_update"] = "state_update"
    state: Literal["requires_action"] = "requires_action"


class IdleUpdate(WireModel):
    """`error` is that of the stop reason `error`."""

    session_update: Literal["state_update"] = "state_update"
    state: Literal["idle"] = "idle"
    stop_reason: StopReason | Literal["error"] | None = None
    error: Error | None = None


class DiffChange(WireModel):
    """What happened to a file: its absolute path."""

    operation: Literal["add", "delete", "modify"]
    path: str
    file_type: Literal["text"] = "text"


class DiffPatch(WireModel):
    format: Literal["git_patch"] = "git_patch"
    text: str


class Diff(WireModel):
    type: Literal["diff"] = "diff"
    changes: list[DiffChange]
    patch: DiffPatch


ToolCallContent = Annotated[Content | Diff | Terminal, Field(discriminator="type")]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed", "cancelled"]


class ToolCallPatch(WireModel):
    """A tool call, or a change of one."""

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
    """The first one with an id makes the call."""

    session_update: Literal["tool_call_update"] = "tool_call_update"


class TerminalExitStatus(WireModel):
    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(WireModel):
    """`data` is base64, and all output."""

    data: str


class TerminalUpdate(WireModel):
    """The state of a terminal that the agent owns and the client draws."""

    session_update: Literal["terminal_update"] = "terminal_update"
    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: TerminalOutput | None = None
    exit_status: TerminalExitStatus | None = None


class TerminalOutputChunk(WireModel):
    """`data` is base64, and is appended."""

    session_update: Literal["terminal_output_chunk"] = "terminal_output_chunk"
    terminal_id: str
    data: str


class PlanItems(WireModel):
    type: Literal["items"] = "items"
    plan_id: str
    entries: list[PlanEntry]


class PlanUpdate(WireModel):
    """The whole plan, which replaces the last one."""

    session_update: Literal["plan_update"] = "plan_update"
    plan: PlanItems


class AvailableCommandsUpdate(WireModel):
    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: list[AvailableCommand]


class ConfigOptionUpdate(WireModel):
    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: list[ConfigOption]
