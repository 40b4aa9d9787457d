"""Handles as they are listed: a row for each, and what `ls()` shows of the rows.

Must not know which handles there are. Used by the Board, which has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ....context.tail.section_parts import line
from ....core.text import more
from ....files.node import NodeBase
from ....files.tails import HandleRow

_LISTED: Final = 20


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """What `ls()` returns: its repr is the listing."""

    rows: tuple[HandleRow, ...]

    def __repr__(self) -> str:
        if not self.rows:
            return "no handles; view(path) makes one"
        left = len(self.rows) - _LISTED
        rest = more(left, "handle") if left > 0 else ""
        return ("".join(map(line, self.rows[:_LISTED])) + rest).rstrip("\n")


def row(node: NodeBase, name: str) -> HandleRow:
    """The row of a handle under that name; nothing about the handle changes."""
    return HandleRow(
        name=name,
        obj_id=node.obj_id,
        obj_type=node.obj_type,
        mode=node.mode,
        freq=shown_frequency(node),
        lod=node.lod,
        tokens=node.tokens if isinstance(node.tokens, int) else 0,
        used_tokens=node.measure().tokens,
        changed=node.changed,
        title=node.title,
        pinned=node.pinned is not None,
        idle=node.idle,
        children=tuple(child.obj_id for child in node.children()),
    )


def shown_frequency(node: NodeBase) -> str:
    """How the node follows its source: "Sync", "Periodic 5s"; empty for a paused one."""
    freq = node.freq if node.running else None
    return f"{freq[0]} {freq[1]:g}s" if isinstance(freq, tuple) else freq or ""
