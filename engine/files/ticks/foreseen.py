"""What a tick would find now, for whoever only looks: no node changes, and nothing counts as told.

A node that is due says in one line what it would adopt. What is prepared beside ticks (`Async`) is not known before it
is there. Called by the Board.
"""

from __future__ import annotations

from collections.abc import Iterator

from .context import TickContext
from .group import is_group_due
from .periodic import is_time
from .result import Ticking
from .sync import is_round


def foreseen(context: TickContext) -> Iterator[tuple[Ticking, str]]:
    """The nodes that would change in such a tick by what their sources hold now, each with the line."""
    for node in context.nodes:
        is_due = is_round(node, context) if node.freq == "Sync" else is_time(node, context.now)
        if is_due and (line := node.foresee()):
            yield node, line
    for group in context.groups:
        if is_group_due(group, context) and (line := group.foresee()):
            yield group, line
