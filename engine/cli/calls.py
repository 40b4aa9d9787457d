"""One line for a tool call, as all commands show it. Must not know any command."""

from __future__ import annotations

from typing import Final

import msgspec

from ..log.events.conversation import ToolCall
from .output.printing import shown_line

WIDTH: Final = 100
"""Characters of a line that stands for something longer."""


def call_line(call: ToolCall) -> str:
    """The tool, and the first line of its source, or its arguments as JSON."""
    source = call.arguments.get("source")
    text = source if isinstance(source, str) else msgspec.json.encode(call.arguments).decode()
    return f"{shown_line(call.tool, WIDTH)} {shown_line(text, WIDTH)}".rstrip()
