"""Updates for what is streamed while no event says it yet: pieces of messages, output of a running statement."""

from __future__ import annotations

from collections.abc import Sequence

from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import to_wire
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallStatus, ToolCallUpdate
from acp_adapter.wire.v1.shapes.updates import AgentMessageChunk, AgentThoughtChunk
from acp_adapter.wire.v1.updates import commands
from acp_adapter.wire.v1.updates.parts import beside_source
from engine import ReasoningStreamed, StatementRerun, TextStreamed, ToolCallId


def message_update(piece: TextStreamed | ReasoningStreamed) -> Json:
    """A piece of a message."""
    shape = AgentMessageChunk if isinstance(piece, TextStreamed) else AgentThoughtChunk
    return to_wire(shape(content=TextContent(text=piece.text), message_id=piece.message_id))


def rerun_update(rerun: StatementRerun) -> Json:
    """Which earlier statement runs again so that its names are there."""
    title = f"Statement {rerun.statement} again ({rerun.place} of {rerun.total})"
    if rerun.state == "begun":
        call = ToolCall(tool_call_id=rerun.tool_call_id, title=title, kind="other", status="in_progress")
        return to_wire(call)
    status: dict[str, ToolCallStatus] = {"running": "in_progress", "over": "completed", "given_up": "failed"}
    return to_wire(ToolCallUpdate(tool_call_id=rerun.tool_call_id, title=title, status=status[rerun.state]))


def output_updates(call: ToolCallId, new: str, text: str, shown: Shown) -> Sequence[Json]:
    """What a running statement, or a command inside of it, has printed.

    Nothing for one that has ended, or as long as it is empty lines. `new` is what it printed since the last time,
    `text` all of it so far.
    """
    helper = shown.helpers.get(call)
    command = None if helper is None else commands.command_of(helper.call)
    if helper is not None and command is not None and helper.done is None and text:
        return [to_wire(commands.printed(helper.call, command, new, text, terminals=shown.terminals))]
    running = [begun for begun in shown.statements.values() if begun.call == call and text]
    return [to_wire(ToolCallUpdate(tool_call_id=call, content=beside_source(begun, text))) for begun in running]
