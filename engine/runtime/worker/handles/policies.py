"""Handles as arguments of what would make them so: what the timeline section writes in the place of superseded calls.

Must not know which statements made them. Used by the Board.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....context.tail.timeline import Policy
from ....files.group import GroupHandle
from ....files.node import NodeBase
from ....files.view import ViewHandle
from .live_nodes import LiveNodes


def policies_of(ids: Iterable[str], nodes: LiveNodes, names: Mapping[int, str]) -> dict[str, Policy]:
    """Those of the handles with these ids that live, by their ids; `names` as the namespace has them."""
    found = ((obj_id, nodes.get(obj_id)) for obj_id in ids)
    return {obj_id: _policy(node, names) for obj_id, node in found if node is not None}


def _policy(node: NodeBase, names: Mapping[int, str]) -> Policy:
    members = _members(node, names) if isinstance(node, GroupHandle) else None
    pos = {"pos": _written(node.pos)} if isinstance(node, ViewHandle) else {}
    return Policy(
        name=names.get(id(node), ""),
        arguments={**pos, "tokens": repr(node.tokens), "lod": str(node.lod), **_schedule(node)},
        members=members,
    )


def _schedule(node: NodeBase) -> dict[str, str | None]:
    """A frequency has a handle run, and each kind of handle has a mode that needs no argument."""
    if not node.running:
        return {"mode": '"paused"' if isinstance(node, GroupHandle) else None, "freq": None}
    freq = f'("Periodic", {node.freq[1]:g})' if isinstance(node.freq, tuple) else _written(node.freq or "Sync")
    return {"mode": None, "freq": freq}


def _members(group: GroupHandle, names: Mapping[int, str]) -> tuple[str, ...] | None:
    written = [_member(each, names) for each in group.members]
    return None if None in written else tuple(each for each in written if each is not None)


def _member(member: object, names: Mapping[int, str]) -> str | None:
    return _written(member) if isinstance(member, str) else names.get(id(member))


def _written(value: str | int) -> str:
    """As Python, where that is possible in the quotes that the instructions have."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text
