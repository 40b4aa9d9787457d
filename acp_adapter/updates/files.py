"""Updates for changed files and for files that a rewind restored.

A changed file is a completed tool call of kind `read`, with the headline or the diff of the change. Files of a glob
share the call of their group. The node that shows a file describes the change better than the file's own headline, and
its event follows at once. So a change is shown with the following event, because a completed call does not change any
more.
"""

from __future__ import annotations

from typing import Final, assert_never

from msgspec.structs import replace

from acp_adapter.shown import Facts, Shown
from acp_adapter.updates.blocks import Step, location, relative, text_block, title_line
from acp_adapter.updates.shapes import ToolCall, ToolCallLocation
from engine.core.text import plural
from engine.log.events import AnyEvent, NodeEvent, RewindingEvent
from engine.log.events.going_back import RewindBegun, Rewound
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
from engine.log.file_history import left_lines, merged_lines, restored_names, rewound_lines


def step(event: NodeEvent, shown: Shown) -> Step:
    """Translate an event of a node."""
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
    """Files of a glob have no event; the group reports them to the model."""
    return ToolCall(
        tool_call_id=f"group_{event.event_id}",
        title=title_line(f"Follow {event.files}"),
        kind="read",
        status="completed",
        content=[text_block(event.delta)],
    )


def changed_file(shown: Shown, following: AnyEvent, facts: Facts) -> Step:
    """Show the pending change of a file; with the diff of a node, if that is the following event."""
    event = shown.changed
    if event is None:
        return shown, []
    delta = event.delta
    if isinstance(following, NodeChanged) and following.delta.startswith(delta):
        delta = following.delta
    call = ToolCall(
        tool_call_id=f"file_{event.event_id}",
        title=title_line(f"Follow {relative(event.path, facts.cwd) or 'a file'}: {event.change}"),
        kind="read",
        status="completed",
        content=[text_block(delta)],
        locations=[ToolCallLocation(path=event.path)],
    )
    return replace(shown, changed=None), [call]


RESTORED: Final = "Restore"
"""Begins the title of the call for a rewind, whose content names the files."""
_MOST_LOCATIONS: Final = 20
"""Limit of files in the locations of a rewind."""


def rewind_step(event: RewindingEvent, shown: Shown, facts: Facts) -> Step:
    """Translate an event of a rewind: one call, shown when it has ended."""
    match event:
        case RewindBegun():
            return shown, []
        case Rewound():
            text = _named(event, facts)
            return shown, [_ended(event, text, facts)] if text else []
        case _:
            assert_never(event)


def _named(event: Rewound, facts: Facts) -> str:
    """Return what the title does not say."""

    def spelled(path: str) -> str:
        return relative(facts.spelled(path), facts.cwd)

    if event.cancelled:
        return "\n".join(rewound_lines(event, spelled))
    lines = (restored_names(event, spelled), *merged_lines(event.restored, spelled), *left_lines(event, spelled))
    return "\n".join(filter(None, lines))


def _ended(event: Rewound, text: str, facts: Facts) -> ToolCall:
    count = 0 if event.cancelled else len({file.path for file in event.restored})
    return ToolCall(
        tool_call_id=f"rewound_{event.event_id}",
        title=f"{RESTORED} {count} {plural(count, 'file')}" if count else f"{RESTORED} files",
        kind="edit",
        status="failed" if event.cancelled or not event.restored else "completed",
        content=[text_block(text)],
        locations=[location(facts.spelled(file.path)) for file in event.restored[:_MOST_LOCATIONS]],
    )
