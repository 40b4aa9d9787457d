"""The host's share of a projection: which texts a model call is made of, so that each is counted once and exactly.

The tail comes from the worker (`tail.py`); the View's messages are append-only, which keeps the prefix of two
successive calls the same.
"""

from __future__ import annotations

from typing import Final

from ..events import Event
from ..events.conversation import AgentReasoning, AgentText, ToolCall, ToolResult, UserMessage
from ..user_message import user_text
from ..view.entries import Summary
from .written import REST_LEFT_OUT

MESSAGE_OVERHEAD: Final = 4
"""Tokens that a message costs besides its text, after OpenAI's published accounting for o200k models."""


def message_text(event: Event) -> str:
    """What of a View event the model reads; "" for one that is no message."""
    match event:
        case UserMessage():
            return user_text(event)
        case AgentText(text=text) | AgentReasoning(text=text) | ToolResult(text=text) | Summary(text=text):
            return text
        case ToolCall(arguments=arguments, rest_left_out=rest_left_out):
            source = str(arguments.get("source", arguments))
            return f"{source}\n[{REST_LEFT_OUT}]" if rest_left_out else source
        case _:
            return ""
