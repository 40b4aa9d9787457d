"""What updates of several groups are made of: fenced text, time stamps, and the end of a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from acp_adapter.wire.model import WireModel
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import Content, ToolCallStatus, ToolCallUpdate
from engine import cut_line

TITLE_CHARS: Final = 80

Step = tuple[Shown, Sequence[WireModel]]
"""What has been shown after an event, and what is sent for it."""


def text_block(text: str) -> Content:
    """Text as it is, in a Markdown fence longer than any in it, because clients render content as Markdown."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return Content(content=TextContent(text=f"{fence}\n{text}\n{fence}"))


def timestamp(at: float) -> str:
    """Seconds since the Unix epoch as ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def ended_call(call: str, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """The end of a call that was shown, with what came of it."""
    return ToolCallUpdate(tool_call_id=call, status=status, content=[text_block(text)])


def title(text: str) -> str:
    """What a call is called where there is room for one line."""
    return cut_line(text.strip(), TITLE_CHARS)
