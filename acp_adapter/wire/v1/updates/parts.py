"""What updates of several groups are made of: fenced text, numbers that the wire takes, and the end of a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from acp_adapter.wire.model import WireModel
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import Content, ToolCallLocation, ToolCallStatus, ToolCallUpdate
from engine import cut_line

TITLE_CHARS: Final = 80
_LARGEST_COUNT: Final = (1 << 64) - 1
_LARGEST_LINE: Final = (1 << 32) - 1
"""What the schema of version 1 takes."""

Step = tuple[Shown, Sequence[WireModel]]
"""What has been shown after an event, and what is sent for it."""


def text_block(text: str) -> Content:
    """Text as it is, in a Markdown fence longer than any in it, because clients render content as Markdown."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return Content(content=TextContent(text=f"{fence}\n{text}\n{fence}"))


def count(number: int) -> int:
    """The number, or the nearest that the wire takes as a count: a log from elsewhere may hold any."""
    return min(max(number, 0), _LARGEST_COUNT)


def location(path: str, line: int | None = None) -> ToolCallLocation:
    """A place in a file. A line that the wire cannot say is left out: a log from elsewhere may hold any."""
    return ToolCallLocation(path=path, line=line if line is not None and 0 <= line <= _LARGEST_LINE else None)


def ended_call(call: str, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """The end of a call that was shown, with what came of it."""
    return ToolCallUpdate(tool_call_id=call, status=status, content=[text_block(text)])


def title(text: str) -> str:
    """What a call is called where there is room for one line."""
    return cut_line(text.strip(), TITLE_CHARS)
