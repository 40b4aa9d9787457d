"""The host's share of a projection: which texts a model call is made of, so that each is counted once and exactly.

The tail comes from the worker (`tail.py`); the View's messages are append-only, which keeps the prefix of two
successive calls the same.
"""

from __future__ import annotations

from typing import Final

from ...log.events import Event
from ...log.events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from ...log.user_message import user_text
from ..view.entries import Summary
from .written import with_note, written_call, written_result

MESSAGE_OVERHEAD: Final = 4
"""Tokens that a message costs besides its text, after OpenAI's published accounting for o200k models."""


def message_text(event: Event, *, calls_tools: bool = True) -> str:
    """What of a View event the model reads; "" for one that is no message.

    Args:
        calls_tools: False for a model that reads and writes its statements as text.
    """
    match event:
        case ToolCall() if not calls_tools:
            return with_note(written_call(event), event)
        case ToolResult(text=text) if not calls_tools:
            return written_result(text)
        case UserMessage():
            return user_text(event)
        case AgentText(text=text) | AgentReasoning(text=text) | ToolResult(text=text) | Summary(text=text):
            return text
        case ToolCall(arguments=arguments):
            return with_note(str(arguments.get("source", arguments)), event)
        case _:
            return ""
