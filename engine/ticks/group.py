"""The group phase: groups sum up what the phases before it have made of their members. Bottom-up, once each, last.

A group is due as a node of its frequency is. For each whose members have changed: GroupRecomputed, TickApplied. Called
by `phases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ..events import Event
from ..events.nodes import GroupRecomputed, TickApplied
from .context import TickContext
from .periodic import is_time
from .result import UNCHANGED, Ticking
from .sync import is_round


def group(context: TickContext) -> Iterator[Event]:
    """Ticks the groups that are due."""
    for node in bottom_up(context.groups):
        if not is_group_due(node, context):
            continue
        result = node.Tick(context.now, context.round_id, "group")
        if result is not UNCHANGED:
            yield GroupRecomputed(obj_id=node.obj_id, delta=result.delta)
            yield TickApplied(obj_id=node.obj_id, tick_kind="group", turn_id=context.round_id, delta=result.summary)


_G = TypeVar("_G", bound=Ticking)


def bottom_up(groups: Sequence[_G]) -> list[_G]:
    """Each group after all that it holds, and otherwise in their order; one that holds another is no member of it."""
    known = {group.obj_id: group for group in groups}
    ordered: dict[str, _G] = {}
    waiting = list(reversed(groups))
    while waiting:
        below = [each for each in waiting[-1].children() if each.obj_id in known and each.obj_id not in ordered]
        if below:
            waiting += [known[each.obj_id] for each in reversed(below)]
        else:
            ordered.setdefault(waiting[-1].obj_id, waiting[-1])
            waiting.pop()
    return list(ordered.values())


def is_group_due(node: Ticking, context: TickContext) -> bool:
    """Whether it runs, and its interval has passed."""
    if not node.running:
        return False
    # What is prepared for an "Async" group was applied by now, and so were the changes of its members.
    return is_round(node, context) if isinstance(node.freq, str) else is_time(node, context.now)
