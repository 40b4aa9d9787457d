"""What of the nodes stands in the tail by itself: groups, the important ones first, and what is pinned.

Important is what is pinned, then what has changed since a model read it, then what a statement used last. Must not know
how much room there is. Used by the Board.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..nodes.base import NodeBase
from ..nodes.budget import limit_of
from ..nodes.group_handle import GroupHandle
from ..nodes.rendered import RenderedView
from ..ports import StandingRender
from ..projection.surfaces import Surface
from .live_nodes import LiveNodes

Standing = Mapping[str, StandingRender]
"""What results of the View show, by the ids of nodes."""


def group_surfaces(nodes: LiveNodes, names: Mapping[int, str], standing: Standing) -> tuple[Surface, ...]:
    """The groups that no other group shows, and those that are pinned."""
    found = [node for node in nodes.all() if isinstance(node, GroupHandle)]
    inner = {id(child) for group in found for child in group.children()}
    shown = [group for group in found if id(group) not in inner or group.pinned is not None]
    shown.sort(key=lambda group: (group.pinned is not None, group.changed, group.last_touched), reverse=True)
    return tuple(_surface(group, _name(group, names), "group of ", standing) for group in shown)


def pin_surfaces(nodes: LiveNodes, names: Mapping[int, str], standing: Standing) -> tuple[Surface, ...]:
    """The pinned nodes that are no groups, the one that was used last first."""
    found = [node for node in nodes.all() if node.pinned is not None and not isinstance(node, GroupHandle)]
    found.sort(key=lambda node: node.last_touched, reverse=True)
    return tuple(_surface(node, _name(node, names), "", standing) for node in found)


def _name(node: NodeBase, names: Mapping[int, str]) -> str:
    return names.get(id(node), node.obj_id)


def _surface(node: NodeBase, name: str, what: str, standing: Standing) -> Surface:
    own = node.measure()
    reason = "" if node.pinned is None else f"; pinned: {node.pinned}" if node.pinned else "; pinned"
    return Surface(
        obj_id=node.obj_id,
        name=name,
        heading=f"{name} ({what}{node.title}{reason})",
        text=own.text,
        render=_within(node),
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


def _within(node: NodeBase) -> Callable[[int], str]:
    return lambda room: node.Render(tokens=min(room, limit_of(node.tokens))).text
