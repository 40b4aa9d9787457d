"""A change of a file: what a question about it shows, and what its call shows when it is done. The same, so that a
person finds again what was decided about.

An editor draws the texts of a diff itself, as they are. What is not seen in them stands beside the diff in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acp_adapter.wire.legible import title_line
from acp_adapter.wire.v1.shapes.content import TextContent
from acp_adapter.wire.v1.shapes.tools import Content, Diff, ToolCallContent, ToolCallLocation
from acp_adapter.wire.v1.updates.parts import location, relative
from engine import (
    ASKED_CHARS,
    TextChange,
    change_size,
    fenced,
    first_changed_line,
    legible_line,
    source_text,
    unseen_changes,
)

_NOT_SEEN: Final = "Not seen in the diff:"


def change_title(path: str, changes: Sequence[TextChange], cwd: str, *, removed: bool = False) -> str:
    """What is done to which file, and how many lines of it are added and removed.

    `removed`: the file itself is gone, where one that is empty now has the same `changes`.
    """
    act = "Remove" if removed else "Create" if any(change.old is None for change in changes) else "Edit"
    more, fewer = change_size(changes)
    counts = [f"+{more:,}"] * bool(more) + [f"-{fewer:,}"] * bool(fewer)
    size = f" ({' '.join(counts)})" if counts else ""
    return title_line(f"{act} {relative(path, cwd)}") + size


def change_content(path: str, changes: Sequence[TextChange], note: str) -> list[ToolCallContent]:
    """Each changed region as a diff, and in words what cannot be shown as one."""
    diffs = [Diff(path=path, old_text=change.old, new_text=change.new) for change in changes]
    hidden = [] if legible_line(path) == path else [f"the path: {legible_line(path)}"]
    hidden += filter(None, [unseen_changes(changes)])
    words = [note] * bool(note) + ["\n".join((_NOT_SEEN, *hidden))] * bool(hidden)
    said = [Content(content=TextContent(text=fenced(source_text(each, ASKED_CHARS)))) for each in words]
    return [*diffs, *said]


def change_locations(path: str, changes: Sequence[TextChange]) -> list[ToolCallLocation]:
    """Where a followed editor jumps to: the first line that is otherwise."""
    return [location(path, first_changed_line(changes))]
