"""What happens in a session as `session/update` in version 1: pure functions, one module for each group of events.

An event and what has been shown before it give what is to be sent, and what has been shown after it; see
`wire.shown`. A message that was streamed is not sent again when it is whole, and the user's own prompt is not echoed,
because clients would show both twice; when a session is loaded, both are sent, and of everything only how it ended
(`replay`). The pump calls, live and for a load.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_adapter.facts import Facts
from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import to_wire
from acp_adapter.wire.shown import NOTHING_SHOWN, Shown
from acp_adapter.wire.v1.updates.replay import Replay
from acp_adapter.wire.v1.updates.session import commands_update
from acp_adapter.wire.v1.updates.steps import step
from acp_adapter.wire.v1.updates.streams import message_update, output_updates, rerun_update
from engine.log.events import AnyEvent

__all__ = ["commands_update", "event_updates", "message_update", "output_updates", "replay", "rerun_update"]


def event_updates(event: AnyEvent, shown: Shown, facts: Facts, *, is_live: bool) -> tuple[Shown, Sequence[Json]]:
    """What to send for an event, and what has been shown then. `is_live`: messages were streamed already."""
    shown, updates = step(event, shown, facts, is_live)
    return shown, [to_wire(update) for update in updates]


def replay(events: Sequence[AnyEvent], facts: Facts, shown: Shown = NOTHING_SHOWN) -> Replay:
    """What draws the state that a log ends in, for an editor that has been shown nothing."""
    return Replay(events, facts, shown)
