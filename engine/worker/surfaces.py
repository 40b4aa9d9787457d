"""What of the nodes stands in the tail by itself: groups, the important ones first, and what is pinned.

Important is what is pinned, then what has changed since a model read it, then what a statement used last. Must not know
how much room there is. Used by the Board.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..nodes.base import NodeBase
from ..nodes.budget import limit_of
from ..nodes.group_handle import GroupHandle
from ..projection.surfaces import Surface
from .live_nodes import LiveNodes


def group_surfaces(nodes: LiveNodes, names: Mapping[int, str]) -> tuple[Surface, ...]:
    """The groups that no other group shows, and those that are pinned."""
    found = [node for node in nodes.all() if isinstance(node, GroupHandle)]
    inner = {id(child) for group in found for child in group.children()}
    shown = [group for group in found if id(group) not in inner or group.pinned is not None]
    shown.sort(key=lambda group: (group.pinned is not None, group.changed, group.last_touched), reverse=True)
    return tuple(_surface(group, _name(group, names), "group of ", nodes) for group in shown)


def pin_surfaces(nodes: LiveNodes, names: Mapping[int, str]) -> tuple[Surface, ...]:
    """The pinned nodes that are no groups, the one that was used last first."""
    found = [node for node in nodes.all() if node.pinned is not None and not isinstance(node, GroupHandle)]
    found.sort(key=lambda node: node.last_touched, reverse=True)
    return tuple(_surface(node, _name(node, names), "", nodes) for node in found)


def _name(node: NodeBase, names: Mapping[int, str]) -> str:
    return names.get(id(node), node.obj_id)


def _surface(node: NodeBase, name: str, what: str, nodes: LiveNodes) -> Surface:
    text = node.measure().text
    reason = "" if node.pinned is None else f"; pinned: {node.pinned}" if node.pinned else "; pinned"
    return Surface(
        obj_id=node.obj_id,
        name=name,
        heading=f"{name} ({what}{node.title}{reason}):",
        text=text,
        render=_within(node),
        shown_in=nodes.shown_in(node, text),
    )


def _within(node: NodeBase) -> Callable[[int], str]:
    return lambda room: node.Render(tokens=min(room, limit_of(node.tokens))).text
