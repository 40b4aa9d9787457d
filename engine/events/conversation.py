"""The conversation: what was said, called and answered. The View and the request cycles are folds over these kinds.

A `ToolCall` with a `parent_id` is a helper called inside a statement: it and its result are on the log and in the
cycles, never in the View, because a provider must not see calls that its model did not make.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..ids import EventId, LlmResponseId, MessageId, ToolCallId
from .base import Event

PromptKind = Literal["direct", "steer", "follow_up"]
ResultStatus = Literal["ok", "error", "rejected", "cancelled"]
RunStopReason = Literal["completed", "interrupted", "error"]
StopCause = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Something a prompt carried besides text: a link (`text` None) or an embedded text resource."""

    uri: str
    name: str
    media_type: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """A model's thinking as its provider signed it; it must go back unchanged or not at all."""

    text: str
    signature: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(Event):
    kind: ClassVar[str] = "user_message"

    message_id: MessageId
    text: str
    prompt_kind: PromptKind = "direct"
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText(Event):
    """One finished (or interrupted) item of assistant text, holding exactly what was streamed."""

    kind: ClassVar[str] = "agent_text"

    message_id: MessageId
    text: str
    llm_response_id: LlmResponseId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReasoning(Event):
    """One finished (or interrupted) item of the model's reasoning, with the provider's signature where it gave one."""

    kind: ClassVar[str] = "agent_reasoning"

    message_id: MessageId
    text: str
    signature: str | None = None
    llm_response_id: LlmResponseId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Event):
    """A call the model made (`parent_id` None), or one that a statement made through a helper."""

    kind: ClassVar[str] = "tool_call"

    tool_call_id: ToolCallId
    tool: str
    arguments: dict[str, object] = field(default_factory=dict[str, object])
    llm_response_id: LlmResponseId | None = None
    thinking: tuple[ThinkingBlock, ...] = ()
    parent_id: ToolCallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(Event):
    kind: ClassVar[str] = "tool_result"

    tool_call_id: ToolCallId
    status: ResultStatus
    text: str
    parent_id: ToolCallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStop(Event):
    """The agent went idle. `reason` is the boundary class of the request cycle, `cause` says why in more detail."""

    kind: ClassVar[str] = "run_stop"

    reason: RunStopReason
    cause: StopCause
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensation(Event):
    """Events leave the View for good; a summary may take their place at `summary_offset`, a gap of what remains."""

    kind: ClassVar[str] = "condensation"

    forgotten: tuple[EventId, ...]
    summary: str | None = None
    summary_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CondensationRequest(Event):
    """Somebody asked for a condensation: a person, or a provider that refused the context as too long."""

    kind: ClassVar[str] = "condensation_request"
