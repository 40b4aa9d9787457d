"""Updates for branches: a mark where the head has moved, because an editor cannot withdraw what it has shown.

A load shows the active path alone, of which everything counts, so it has no marks.
"""

from __future__ import annotations

from acp_adapter.wire.legible import title_line
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall
from acp_adapter.wire.v1.updates.parts import Step, text_block
from engine import moved_sentence
from engine.log.events import BranchEvent
from engine.log.events.going_back import BranchCreated, HeadMoved


def step(event: BranchEvent, shown: Shown, is_live: bool) -> Step:
    """What an event of a branch is to an editor."""
    match event:
        case HeadMoved() if is_live:
            return shown, [_mark(event)]
        case BranchCreated() | HeadMoved():
            return shown, []


def _mark(event: HeadMoved) -> ToolCall:
    place = f"statement {event.statement}" if event.statement else "the beginning"
    return ToolCall(
        tool_call_id=f"moved_{event.event_id}",
        title=title_line(f"Branch {event.branch}, after {place}"),
        kind="other",
        status="completed",
        content=[text_block(f"The conversation above is no longer active: {moved_sentence(event)}.")],
    )
