"""The group phase: groups sum up what the phases before it have made of their members. Bottom-up, once each, last.

A group is due as a node of its frequency is. For each whose members have changed: GroupRecomputed, TickApplied. A
change in a leaf of nested groups makes all of them anew, and is to be told once. So a group between says nothing: one
of which only groups changed, which this tick has made anew, inside of another one that it makes anew. The innermost
group has said which member changed, and the outermost says in which group. Called by `phases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from ...core.cutting import more
from ...core.ids import ObjId
from ...log.events import Event
from ...log.events.nodes import GroupRecomputed, TickApplied
from .context import TickContext
from .periodic import is_time
from .result import UNCHANGED, Ticking, TickResult
from .sync import is_round

_NAMED: Final = 3


def group(context: TickContext) -> Iterator[Event]:
    """Ticks the groups that are due."""
    changes = _Changes(context)
    for node in bottom_up(context.groups):
        if is_group_due(node, context):
            result = node.Tick(context.now, context.round_id, "group")
            if result is not UNCHANGED:
                yield from changes.add(node, result)
    yield from changes.rest()


class _Changes:
    """The groups that one tick has made anew, as they are told."""

    def __init__(self, context: TickContext) -> None:
        self._context = context
        self._groups = {group.obj_id: group for group in context.groups}
        self._sources: dict[str, tuple[str, ...]] = {}
        """Of each group, those in it, or itself, of which more than groups changed."""
        self._waiting: dict[str, str] = {}
        """What the groups would say of which only groups changed, until it is known whether one around them does."""

    def add(self, node: Ticking, result: TickResult) -> Iterator[Event]:
        summary, members = result.summary, result.members
        inner = [member for member in members if member in self._sources]
        for member in inner:
            if self._waiting.pop(member, None) is not None:
                yield from self._told(member, "")
        sources = dict.fromkeys(source for member in inner for source in self._sources[member])
        deeper = [source for source in sources if source not in members]
        if deeper:
            named = [self._groups[ObjId(source)].called for source in deeper[:_NAMED]]
            rest = [more(len(deeper) - _NAMED)] if len(deeper) > _NAMED else []
            summary = f"{summary} (in it: {', '.join((*named, *rest))})"
        if len(inner) == len(members):
            self._sources[node.obj_id] = tuple(sources)
            self._waiting[node.obj_id] = summary
        else:
            self._sources[node.obj_id] = (node.obj_id,)
            yield from self._told(node.obj_id, summary, result.files)

    def rest(self) -> Iterator[Event]:
        for obj_id, summary in self._waiting.items():
            yield from self._told(obj_id, summary)

    def _told(self, group: str, delta: str, files: str = "") -> Iterator[Event]:
        obj_id = ObjId(group)
        yield GroupRecomputed(obj_id=obj_id, delta=delta, files=files)
        yield TickApplied(obj_id=obj_id, tick_kind="group", turn_id=self._context.round_id, delta=delta)


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
