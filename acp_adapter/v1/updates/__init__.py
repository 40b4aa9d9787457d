"""What happens in a session as `session/update`: pure functions, one module for each group of events.

An event and the state shown so far (`shown.Shown`) give the updates to send and the next state. `events` dispatches to
`session`, `conversation`, `statements`, `calls` and `files`, which are built from `shapes` and `blocks`. The pump
calls the functions below, live and for a load.
"""

from __future__ import annotations

from acp_adapter.v1.updates.conversation import message_update
from acp_adapter.v1.updates.events import Replay, event_updates
from acp_adapter.v1.updates.session import (
    commands_update,
    delay_ended,
    delay_notice,
    delay_update,
    options_update,
    retry_ended,
    retry_notice,
    retry_update,
)
from acp_adapter.v1.updates.statements import output_updates, rerun_update

__all__ = [
    "Replay",
    "commands_update",
    "delay_ended",
    "delay_notice",
    "delay_update",
    "event_updates",
    "message_update",
    "options_update",
    "output_updates",
    "rerun_update",
    "retry_ended",
    "retry_notice",
    "retry_update",
]
