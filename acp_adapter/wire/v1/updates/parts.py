"""What updates of several groups are made of: fenced text, sources, numbers as the wire takes them, ends of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from acp_adapter.wire.legible import source_title
from acp_adapter.wire.model import WireModel
from acp_adapter.wire.shown import BegunStatement, Shown
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import (
    Content,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
)
from engine import ASKED_CHARS, REST_LEFT_OUT, as_printed, fenced, legible_line, source_command, source_text

NO_OUTPUT: Final = "(no output)"
SOURCE_CHARS: Final = 20_000
"""How much of a source stands beside its output, which is sent often; it was shown whole before it ran."""
_LARGEST_COUNT: Final = (1 << 64) - 1
_LARGEST_LINE: Final = (1 << 32) - 1
"""What the schema of version 1 takes."""

Step = tuple[Shown, Sequence[WireModel]]
"""What has been shown after an event, and what is sent for it."""


def text_block(text: str) -> Content:
    """What a screen shows of a text, fenced, because clients render content as Markdown; "" is said in words."""
    return Content(content=TextContent(text=fenced(as_printed(text)) if text else NO_OUTPUT))


def source_block(source: str, limit: int = ASKED_CHARS) -> Content:
    """What would run: every line of it, up to `limit` characters."""
    return Content(content=TextContent(text=fenced(source_text(source, limit), "python")))


def source_input(source: str, limit: int = ASKED_CHARS) -> dict[str, Any]:
    """What would run, up to `limit` characters, as the raw input of its call; some clients show it."""
    return {"command": source_command(source, limit)}


def asked_content(begun: BegunStatement, limit: int = ASKED_CHARS) -> list[ToolCallContent]:
    """The content of a statement's call before it runs: its source, if that is shown, and what is to say of it."""
    source = [] if begun.source is None else [source_block(begun.source, limit)]
    return [*source, *([Content(content=TextContent(text=REST_LEFT_OUT))] if begun.rest_left_out else [])]


def beside_source(begun: BegunStatement, text: str) -> list[ToolCallContent]:
    """The content of a statement's call: its source, if that is shown, and what came of it so far."""
    return [*asked_content(begun, SOURCE_CHARS), text_block(text)]


def content_text(content: Sequence[ToolCallContent]) -> str:
    """A content as the raw output of its call; clients that show both notice that they say the same."""
    blocks = [block.content for block in content if isinstance(block, Content)]
    return "\n\n".join(block.text for block in blocks if isinstance(block, TextContent))


def command_title(command: str) -> str:
    """What a shell would run, in one line."""
    return source_title(_of_shell(command))


def command_block(command: str, limit: int = ASKED_CHARS) -> Content:
    """What a shell would run: every line of it, up to `limit` characters."""
    return Content(content=TextContent(text=fenced(source_text(_of_shell(command), limit), "sh")))


def command_input(command: str) -> dict[str, Any]:
    """What a shell would run, as the raw input of its call."""
    return source_input(_of_shell(command))


def _of_shell(command: str) -> str:
    """The command with an escape for a return, which ends no line of a shell's."""
    return command.replace("\r", "\\r")


def arguments_block(arguments: str) -> Content:
    """The arguments of a call, which are JSON: every line of them."""
    return Content(content=TextContent(text=fenced(source_text(arguments, ASKED_CHARS), "json")))


def place_block(cwd: str) -> Content:
    """Where something would run."""
    return Content(content=TextContent(text=fenced(source_text(f"in {legible_line(cwd)}", ASKED_CHARS))))


def relative(path: str, cwd: str) -> str:
    """The path as it is named from `cwd`; one outside of it is whole, and none looks as if it began with a home."""
    inside = path.removeprefix(cwd.rstrip("/") + "/")
    return f"./{inside}" if inside != path and inside.startswith(("~", "/")) else inside


def count(number: int) -> int:
    """The number, or the nearest that the wire takes as a count: a log from elsewhere may hold any."""
    return min(max(number, 0), _LARGEST_COUNT)


def location(path: str, line: int | None = None) -> ToolCallLocation:
    """A place in a file. A line that the wire cannot say is left out: a log from elsewhere may hold any."""
    return ToolCallLocation(path=path, line=line if line is not None and 0 <= line <= _LARGEST_LINE else None)


def ended_call(call: str, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """The end of a call that was shown, with what came of it."""
    return ToolCallUpdate(tool_call_id=call, status=status, content=[text_block(text)])


def ended_statement(begun: BegunStatement, status: ToolCallStatus, text: str) -> ToolCallUpdate:
    """The end of a statement that never ran."""
    return ToolCallUpdate(tool_call_id=begun.call, status=status, content=beside_source(begun, text))
