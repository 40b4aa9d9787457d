"""Updates for files that changed: each is a completed call that reads, with its headline or its diff. Those of globs
share the call of their group.

The node that shows a file says more about a change than the file's headline, and comes right after it. So a change is
shown with the event that follows it, because a call that was shown as completed does not change any more.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from acp_adapter.facts import Facts
from acp_adapter.wire.legible import title_line
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall, ToolCallLocation
from acp_adapter.wire.v1.updates.parts import Step, relative, text_block
from engine.log.events import AnyEvent, NodeEvent
from engine.log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadDropped,
    AsyncPayloadPrepared,
    ContentsAdopted,
    FileChanged,
    GroupRecomputed,
    MethodCalled,
    NodeChanged,
    NodeMade,
    NodesTicked,
    OutlineMade,
    RevisionAdopted,
    StatementTicked,
    TickApplied,
)


def step(event: NodeEvent, shown: Shown) -> Step:
    """What an event of a context object is to an editor."""
    match event:
        case FileChanged():
            return replace(shown, changed=event), []
        case GroupRecomputed():
            return shown, [_changed_group(event)] if event.files else []
        case (
            NodeMade()
            | ContentsAdopted()
            | NodeChanged()
            | MethodCalled()
            | TickApplied()
            | RevisionAdopted()
            | OutlineMade()
            | NodesTicked()
            | StatementTicked()
            | AsyncPayloadPrepared()
            | AsyncPayloadApplied()
            | AsyncPayloadDropped()
        ):
            return shown, []
        case _:
            assert_never(event)


def _changed_group(event: GroupRecomputed) -> ToolCall:
    """Files of globs have no event of their own, and the model is told of them by their group."""
    return ToolCall(
        tool_call_id=f"group_{event.event_id}",
        title=title_line(event.files),
        kind="read",
        status="completed",
        content=[text_block(event.delta)],
    )


def changed_file(shown: Shown, following: AnyEvent, facts: Facts) -> Step:
    """The change of a file that was not shown yet, which is said best by a node's diff if that is what follows."""
    event = shown.changed
    if event is None:
        return shown, []
    delta = event.delta
    if isinstance(following, NodeChanged) and following.delta.startswith(delta):
        delta = following.delta
    call = ToolCall(
        tool_call_id=f"file_{event.event_id}",
        title=title_line(f"{event.change} {relative(event.path, facts.cwd)}"),
        kind="read",
        status="completed",
        content=[text_block(delta)],
        locations=[ToolCallLocation(path=event.path)],
    )
    return replace(shown, changed=None), [call]
