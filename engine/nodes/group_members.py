"""What may be in a group, and what it may not: the errors, and how a member is known by.

Used by GroupHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from .base import NodeBase, NodeContext
from .glob_member import Glob

Member = NodeBase | Glob
DEEPEST: Final = 8
"""Groups within one another; more is refused, because a summary, and what tells a group of a change, goes down or up
level by level on Python's stack, also where no statement runs that could be told of its end; and because a summary
tries each group at more than one size, so that the time doubles with each level."""


class GroupCycleError(ValueError):
    """Raised where a group would come to hold itself, directly or in one of its members."""


class ForeignMemberError(TypeError):
    """Raised for a member that is no node of this session."""


def member_of(context: NodeContext, member: object) -> Member:
    """What a group holds for what a statement gave it.

    Raises:
        ForeignMemberError: it is no node of this session, and no text.
        ValueError: the text is no path or glob of the workspace.
    """
    if isinstance(member, str):
        return context.glob(member)
    if not isinstance(member, NodeBase) or not context.knows(member):
        raise ForeignMemberError(
            f"{type(member).__name__} cannot be in a group: its members are handles made by view() or group(), and"
            " texts that are paths or globs"
        )
    return member


def key_of(member: Member) -> str:
    """By what a group knows a member, so that none is in it twice."""
    return member.key if isinstance(member, Glob) else member.obj_id


def identity_of(member: Member) -> str:
    """What a digest has of a member: of a glob also which files there are."""
    return f"{member.text} {member.manifest.digest}" if isinstance(member, Glob) else member.obj_id


def holds(holder: NodeBase, node: NodeBase) -> bool:
    """Whether `node` is below `holder`."""
    waiting = [holder]
    seen: set[int] = set()
    while waiting:
        children = waiting.pop().children()
        if any(child is node for child in children):
            return True
        fresh = [child for child in children if id(child) not in seen]
        seen.update(map(id, fresh))
        waiting += fresh
    return False


def check_depth(members: Iterable[Member], holder: NodeBase | None = None) -> None:
    """Raises ValueError where groups would nest too deep if `holder`, or a new group, held these, too."""
    above = 1 if holder is None else _levels(holder, lambda node: node.holders())
    below = max(
        (_levels(each, lambda node: node.children()) for each in members if isinstance(each, NodeBase)), default=0
    )
    # The lowest level is that of views, or of a group without a node.
    if above + below > DEEPEST + 1:
        raise ValueError(f"groups nest at most {DEEPEST} deep; put the members of inner groups into one of them")


def _levels(node: NodeBase, following: Callable[[NodeBase], Sequence[NodeBase]]) -> int:
    """Nodes on the longest way from `node` on. No group holds itself, so there is an end."""
    levels, here = 0, {id(node): node}
    while here:
        levels += 1
        here = {id(each): each for known in here.values() for each in following(known)}
    return levels
