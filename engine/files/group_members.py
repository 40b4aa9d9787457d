"""What may be in a group, and what it may not: the errors, and how a member is known by.

Used by GroupHandle.
"""

from __future__ import annotations

from .base import NodeBase, NodeContext
from .glob_member import Glob

Member = NodeBase | Glob


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


def below(holder: NodeBase) -> list[NodeBase]:
    """All nodes that it holds, directly or in one of its members, each once."""
    found: dict[int, NodeBase] = {}
    waiting = [holder]
    while waiting:
        fresh = {id(child): child for child in waiting.pop().children() if id(child) not in found}
        found |= fresh
        waiting += fresh.values()
    return list(found.values())


def holds(holder: NodeBase, node: NodeBase) -> bool:
    """Whether `node` is below `holder`."""
    return any(each is node for each in below(holder))
