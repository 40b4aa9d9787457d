"""What happens in a session as updates for its editor: pure functions, one module for each group of events.

An event and the state shown so far (`shown.Shown`) give the updates to send and the next state. `events` dispatches to
`session`, `conversation`, `statements`, `calls` and `files`, which are built from `shapes` and `blocks`. The pump
calls the functions below, live and for a load. Each version of the protocol writes the updates as JSON: version 1 as
they are, later ones changed.

The submodules are loaded when they are first used, or ahead of time by `Connection.prepare`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # loaded by `__getattr__`
    from acp_adapter.updates.conversation import message_update, user_updates
    from acp_adapter.updates.events import Replay, event_updates
    from acp_adapter.updates.session import (
        commands_update,
        delay_ended,
        delay_notice,
        delay_update,
        options_update,
        retry_ended,
        retry_notice,
        retry_update,
    )
    from acp_adapter.updates.shapes import Update
    from acp_adapter.updates.statements import output_updates, rerun_update

    __all__ = [
        "Replay",
        "Update",
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
        "user_updates",
    ]

_MODULES: Final = {
    "Replay": "events",
    "commands_update": "session",
    "delay_ended": "session",
    "delay_notice": "session",
    "delay_update": "session",
    "event_updates": "events",
    "message_update": "conversation",
    "options_update": "session",
    "output_updates": "statements",
    "rerun_update": "statements",
    "retry_ended": "session",
    "retry_notice": "session",
    "retry_update": "session",
    "user_updates": "conversation",
}
"""The submodule of each function."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
