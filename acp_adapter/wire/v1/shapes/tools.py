"""Tool calls as an editor shows them: creation, patches, content and locations.

Source: ACP v1 schema, `ToolCall`, `ToolCallUpdate` and below. In a patch a field that is left out is unchanged, and a
list replaces the former one.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from acp_adapter.wire.model import WireModel
from acp_adapter.wire.v1.shapes.content import ContentBlock

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]


class Content(WireModel):
    type: Literal["content"] = "content"
    content: ContentBlock


class Diff(WireModel):
    """A change of one file: absolute path; `old_text` null for a new file."""

    type: Literal["diff"] = "diff"
    path: str
    new_text: str
    old_text: str | None = None


class Terminal(WireModel):
    """A terminal of the client's, shown live and kept after its release."""

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
    """What changed about a tool call; in `session/request_permission`, what is asked about."""

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
