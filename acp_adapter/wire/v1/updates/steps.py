"""Which module says what an event is to an editor: one for each group of kinds. Called live and for a load."""

from __future__ import annotations

from acp_adapter.facts import Facts
from acp_adapter.wire.shown import Shown
from acp_adapter.wire.v1.updates import branches, conversation, execution, nodes, replays, rewinding, session
from acp_adapter.wire.v1.updates.parts import Step
from engine.log.events import (
    AnyEvent,
    BranchEvent,
    ConversationEvent,
    ExecutionEvent,
    NodeEvent,
    ReplayEvent,
    RewindingEvent,
)


def step(event: AnyEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    """What to send for an event, and what has been shown then. `is_live`: messages were streamed already."""
    shown, before = nodes.changed_file(shown, event, facts)
    shown, updates = _own_step(event, shown, facts, is_live)
    return shown, [*before, *updates]


def _own_step(event: AnyEvent, shown: Shown, facts: Facts, is_live: bool) -> Step:
    if isinstance(event, ConversationEvent):
        return conversation.step(event, shown, facts, is_live)
    if isinstance(event, ExecutionEvent):
        return execution.step(event, shown, facts, is_live)
    if isinstance(event, NodeEvent):
        return nodes.step(event, shown)
    if isinstance(event, RewindingEvent):
        return rewinding.step(event, shown, facts)
    if isinstance(event, BranchEvent):
        return branches.step(event, shown, is_live)
    if isinstance(event, ReplayEvent):
        return replays.step(event, shown)
    return session.step(event, shown, facts)
