"""Updates for files that went back to what they held: one call, shown when it has ended."""

from __future__ import annotations

from typing import Final, assert_never

from acp_adapter.facts import Facts
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.shapes.tools import ToolCall
from acp_adapter.wire.v1.updates.parts import Step, location, relative, text_block
from engine import rewound_lines
from engine.log.events import RewindingEvent
from engine.log.events.going_back import RewindBegun, Rewound

_FOLLOWED: Final = 20
"""Files that an editor is sent to."""


def step(event: RewindingEvent, shown: Shown, facts: Facts) -> Step:
    """What an event of a rewind is to an editor."""
    match event:
        case RewindBegun():
            return shown, []
        case Rewound():
            lines = rewound_lines(event, lambda path: relative(facts.spelled(path), facts.cwd))
            return shown, [_ended(event, "\n".join(lines), facts)] if lines else []
        case _:
            assert_never(event)


def _ended(event: Rewound, text: str, facts: Facts) -> ToolCall:
    return ToolCall(
        tool_call_id=f"rewound_{event.event_id}",
        title="Put files back",
        kind="edit",
        status="failed" if event.cancelled or not event.restored else "completed",
        content=[text_block(text)],
        locations=[location(facts.spelled(file.path)) for file in event.restored[:_FOLLOWED]],
    )
