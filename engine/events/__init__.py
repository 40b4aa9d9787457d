"""Every kind of event there is, and the table that finds a kind by its name. One file per group of kinds."""

from __future__ import annotations

from .base import UNSTAMPED, Event
from .conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    CondensationRequest,
    RunStop,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from .execution import (
    EffectAnswered,
    EffectRequested,
    ExecutionFinished,
    ExecutionStarted,
    NamesRebound,
    StatementRecorded,
)
from .nodes import FileChanged, MethodCalled, NodeChanged, TickApplied
from .session import (
    EnvironmentRestored,
    PromptQueued,
    PromptWithdrawn,
    SessionOpened,
    UsageReported,
    ViewEnforced,
)

EVENTS: tuple[type[Event], ...] = (
    SessionOpened,
    UserMessage,
    AgentText,
    AgentReasoning,
    ToolCall,
    ToolResult,
    RunStop,
    Condensation,
    CondensationRequest,
    StatementRecorded,
    ExecutionStarted,
    ExecutionFinished,
    EffectRequested,
    EffectAnswered,
    NamesRebound,
    MethodCalled,
    NodeChanged,
    TickApplied,
    FileChanged,
    PromptQueued,
    PromptWithdrawn,
    UsageReported,
    ViewEnforced,
    EnvironmentRestored,
)

__all__ = [
    "EVENTS",
    "UNSTAMPED",
    "AgentReasoning",
    "AgentText",
    "Attachment",
    "Condensation",
    "CondensationRequest",
    "EffectAnswered",
    "EffectRequested",
    "EnvironmentRestored",
    "Event",
    "ExecutionFinished",
    "ExecutionStarted",
    "FileChanged",
    "MethodCalled",
    "NamesRebound",
    "NodeChanged",
    "PromptQueued",
    "PromptWithdrawn",
    "RunStop",
    "SessionOpened",
    "StatementRecorded",
    "ThinkingBlock",
    "TickApplied",
    "ToolCall",
    "ToolResult",
    "UsageReported",
    "UserMessage",
    "ViewEnforced",
]
