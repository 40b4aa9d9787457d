"""The sync phase: running nodes with freq "Sync" look at their sources, at most once per `min_turn_interval` Rounds.

A tick that a statement asks for is one more in its Round, for nodes whose interval is one Round. Called by `phases`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...log.events import Event
from .context import TickContext
from .result import Ticking
from .told import ticked


def sync(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes that are due in this Round."""
    return ticked((node for node in context.nodes if node.freq == "Sync" and is_round(node, context)), context, "sync")


def is_round(node: Ticking, context: TickContext) -> bool:
    """Whether it runs, and its `min_turn_interval` of Rounds has passed since its last tick."""
    if not node.running:
        return False
    last, interval = node.last_tick_turn, node.min_turn_interval
    return last < 0 or context.round_id - last >= interval or (context.asked and interval == 1)
