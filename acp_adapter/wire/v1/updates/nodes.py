"""Updates for files that changed: each is a completed call that reads, with its headline or its diff.

The node that shows a file says more about a change than the file's headline, and comes right after it; it replaces the
content of the file's call.
"""

from __future__ import annotations

import os
from typing import assert_never

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.legible import title_line
from acp_adapter.wire.shown import FileCall, Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallLocation, ToolCallUpdate
from acp_adapter.wire.v1.updates.parts import Step, text_block
from engine.events import NodeEvent
from engine.events.nodes import FileChanged, MethodCalled, NodeChanged, TickApplied


def step(event: NodeEvent, shown: Shown, facts: Facts) -> Step:
    """What an event of a context object is to an editor."""
    match event:
        case FileChanged():
            return _file(event, shown, facts)
        case NodeChanged():
            return _node(event, shown)
        case MethodCalled() | TickApplied():
            return shown, []
        case _:
            assert_never(event)


def _file(event: FileChanged, shown: Shown, facts: Facts) -> Step:
    call = ToolCall(
        tool_call_id=f"file_{event.event_id}",
        title=title_line(f"{event.change} {_relative(event.path, facts.cwd)}"),
        kind="read",
        status="completed",
        content=[text_block(event.delta)],
        locations=[ToolCallLocation(path=event.path)],
    )
    return replace(shown, file_call=FileCall(call.tool_call_id, event.delta)), [call]


def _relative(path: str, cwd: str) -> str:
    # A log from elsewhere may hold an empty path, of which there is none that is relative.
    return os.path.relpath(path, cwd) if path else ""


def _node(event: NodeChanged, shown: Shown) -> Step:
    if shown.file_call is None or not event.delta.startswith(shown.file_call.delta):
        return shown, []
    return shown, [ToolCallUpdate(tool_call_id=shown.file_call.call, content=[text_block(event.delta)])]
