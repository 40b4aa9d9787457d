"""What of the nodes stands in the tail by itself: groups, the important ones first, and what is pinned.

Important is what is pinned, then what has changed since a model read it, then what a statement used last. Must not know
how much room there is. Used by the Board.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from ....context.tail.section_parts import Surface
from ....files.group import GroupHandle
from ....files.node import NodeBase
from ....files.rendered import RenderedView, limit_of
from ....files.tails import StandingRender
from .live_nodes import LiveNodes

_KEPT: Final = 4
"""Smaller renders of one node."""
_NAMED: Final = 8
"""Handles of statements that came out differently, in one heading."""
Diverged = Mapping[str, tuple[int, ...]]
"""The numbers of statements that came out differently when they ran again, by the ids of their handles."""
Standing = Mapping[str, StandingRender]
"""What results of the View show, by the ids of nodes."""


class Smaller:
    """Renders of nodes within less than their own budgets, which one tail after the other asks for where room is short.

    Kept for as long as the node shows the same, the latest few of each.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[NodeBase, tuple[RenderedView, dict[int, str]]] = WeakKeyDictionary()

    def within(self, node: NodeBase, own: RenderedView) -> Callable[[int], str]:
        """What renders a node, which now shows `own`, within so many tokens."""
        kept = self._kept.get(node)
        if kept is None or kept[0] is not own:
            kept = self._kept[node] = own, {}
        texts = kept[1]

        def render(room: int) -> str:
            limit = min(room, limit_of(node.tokens))
            if limit not in texts:
                if len(texts) == _KEPT:
                    texts.clear()
                texts[limit] = node.Render(tokens=limit).text
            return texts[limit]

        return render


def group_surfaces(
    nodes: LiveNodes, names: Mapping[int, str], standing: Standing, diverged: Diverged, smaller: Smaller
) -> tuple[Surface, ...]:
    """The groups that no other group shows, and those that are pinned.

    One that holds a handle of a statement that came out differently says so, also where a result shows it.
    """
    found = [node for node in nodes.all() if isinstance(node, GroupHandle)]
    inner = {id(child) for group in found for child in group.children()}
    shown = [group for group in found if id(group) not in inner or group.pinned is not None]
    shown.sort(key=lambda group: (group.pinned is not None, group.changed, group.last_touched), reverse=True)
    return tuple(_group(group, names, standing, _differing(group, names, diverged), smaller) for group in shown)


def _group(
    group: GroupHandle, names: Mapping[int, str], standing: Standing, differing: str, smaller: Smaller
) -> Surface:
    surface = _surface(group, _name(group, names), "group of ", standing, smaller)
    if not differing:
        return surface
    return replace(surface, heading=f"{surface.heading[:-1]}; {differing})", shown_in=0)


def _differing(group: GroupHandle, names: Mapping[int, str], diverged: Diverged) -> str:
    """Which of what is in the group is of statements that came out differently; empty for none."""
    if not diverged:
        return ""
    found: dict[str, str] = {}
    waiting: list[NodeBase] = [group]
    while waiting:
        node = waiting.pop()
        if node.obj_id not in found:
            numbers = diverged.get(node.obj_id, ())
            said = f"{_name(node, names)} of statement {', '.join(map(str, numbers))}"
            found[node.obj_id] = said if numbers else ""
            waiting += reversed(node.children())
    named = [text for text in found.values() if text]
    rest = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"came out differently when run again: {', '.join(named[:_NAMED])}{rest}" if named else ""


def pin_surfaces(
    nodes: LiveNodes, names: Mapping[int, str], standing: Standing, smaller: Smaller
) -> tuple[Surface, ...]:
    """The pinned nodes that are no groups, the one that was used last first."""
    found = [node for node in nodes.all() if node.pinned is not None and not isinstance(node, GroupHandle)]
    found.sort(key=lambda node: node.last_touched, reverse=True)
    return tuple(_surface(node, _name(node, names), "", standing, smaller) for node in found)


def _name(node: NodeBase, names: Mapping[int, str]) -> str:
    return names.get(id(node), node.obj_id)


def _surface(node: NodeBase, name: str, what: str, standing: Standing, smaller: Smaller) -> Surface:
    own = node.measure()
    reason = "" if node.pinned is None else f"; pinned: {node.pinned}" if node.pinned else "; pinned"
    return Surface(
        obj_id=node.obj_id,
        name=name,
        heading=f"{name} ({what}{node.title}{reason})",
        text=own.text,
        render=smaller.within(node, own),
        shown_in=_shown_in(own, standing.get(node.obj_id)),
    )


def _shown_in(own: RenderedView, standing: StandingRender | None) -> int:
    """The index of the statement whose result shows the node; 0 for none.

    Where it is of the same content at another policy, and no smaller, it counts: whoever gives a node fewer tokens is
    not to pay for a second render of it, for as long as the first one stands.
    """
    if standing is None:
        return 0
    is_enough = standing.is_old_policy and own.tokens <= standing.tokens
    return standing.statement if is_enough or standing.digest == own.digest else 0
