"""Updates for tool calls beside statements: helpers called inside of one, and calls of another program.

The call of a model is announced by its statement (`execution`), so nothing is said of one until its statement is
recorded. One of another program's has no statement; it is announced with its result.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.legible import title_line
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall as ShownCall
from acp_adapter.wire.v1.shapes.tools import ToolCallLocation, ToolCallStatus, ToolCallUpdate
from acp_adapter.wire.v1.updates.parts import Step, ended_call, ended_statement, text_block
from engine import TOOLS, ToolCallId
from engine.events.conversation import ToolCall, ToolResult


def called(event: ToolCall, shown: Shown, facts: Facts) -> Step:
    """A call of the model waits for its statement; a helper's is shown at once."""
    if event.parent_id is None:
        return replace(shown, unannounced={**shown.unannounced, event.tool_call_id: event}), []
    return shown, [_shown_call(event, facts, "in_progress")]


def answered(event: ToolResult, shown: Shown, facts: Facts) -> Step:
    """The end of a helper, of another program's call, or of a statement that was never begun."""
    status: ToolCallStatus = "completed" if event.status == "ok" else "failed"
    call = shown.unannounced.get(event.tool_call_id)
    if call is not None:
        shown = replace(shown, unannounced=_without(shown, event.tool_call_id))
        return shown, [_shown_call(call, facts, status, event.text)]
    if event.tool_call_id in shown.changing:
        shown = replace(shown, changing=shown.changing - {event.tool_call_id})
        return shown, [ToolCallUpdate(tool_call_id=event.tool_call_id, status=status)]
    if event.parent_id is not None:
        return shown, [ended_call(event.tool_call_id, status, event.text)]
    for statement, begun in shown.statements.items():
        if begun.call == event.tool_call_id:
            return shown.without(statement), [ended_statement(begun, status, event.text)]
    return shown, []  # because the end of what was run is announced by ExecutionFinished


def _without(shown: Shown, call_id: ToolCallId) -> dict[ToolCallId, ToolCall]:
    return {other: call for other, call in shown.unannounced.items() if other != call_id}


def _shown_call(event: ToolCall, facts: Facts, status: ToolCallStatus, output: str | None = None) -> ShownCall:
    tool = TOOLS.get(event.tool)
    path = event.arguments.get("path")
    return ShownCall(
        tool_call_id=event.tool_call_id,
        title=title_line(f"{event.tool} {path if isinstance(path, str) else ''}"),
        name=event.tool,
        kind=tool.kind if tool else "other",
        status=status,
        content=[] if output is None else [text_block(output)],
        locations=[ToolCallLocation(path=os.path.join(facts.cwd, path))] if isinstance(path, str) else [],
        raw_input=event.arguments,
    )
