"""All kinds of event. A kind is one class in the module of its group and in that group's union.

Import a kind from the module that owns it: `conversation`, `execution`, `going_back`, `nodes` or `session`.
"""

from __future__ import annotations

from typing import Final, cast, get_args

from .base import UNSTAMPED, Event
from .conversation import ConversationEvent
from .execution import ExecutionEvent
from .going_back import BranchEvent, ReplayEvent, RewindingEvent
from .nodes import NodeEvent
from .session import SessionEvent

AnyEvent = SessionEvent | ConversationEvent | ExecutionEvent | NodeEvent | RewindingEvent | BranchEvent | ReplayEvent
"""Any event; a `match` over it is exhaustive."""

EVENTS: Final = cast("tuple[type[Event], ...]", get_args(AnyEvent))
"""The same as a tuple, in the order of the groups."""

__all__ = [
    "EVENTS",
    "UNSTAMPED",
    "AnyEvent",
    "BranchEvent",
    "ConversationEvent",
    "Event",
    "ExecutionEvent",
    "NodeEvent",
    "ReplayEvent",
    "RewindingEvent",
    "SessionEvent",
]
