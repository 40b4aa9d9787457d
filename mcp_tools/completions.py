"""What may be meant by the beginning of an argument: of a prompt, or of a template of URIs. Must not know MCP.

Names and cursors are the session's own; paths are listed within its directories alone. Called by `requests`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

import anyio.to_thread

from engine import changes_of, complete_path
from mcp_tools.handles import folded
from mcp_tools.tools.row import PATH_CHARS

if TYPE_CHECKING:
    from mcp_tools.bench import Bench

Kind = Literal["view", "group", "cursor", "directory"]
COMPLETED: Final[dict[tuple[str, str], Kind]] = {
    ("view://{name}", "name"): "view",
    ("group://{name}", "name"): "group",
    ("changes://{cursor}", "cursor"): "cursor",
    ("review-changes", "since"): "cursor",
    ("orient", "path"): "directory",
}
"""What an argument is, by the template or the prompt that it is of, and its name."""
_MOST_READ: Final = 10_000
"""Events that cursors are looked for in."""


async def completions(kind: Kind, start: str, bench: Bench | None, roots: Sequence[str]) -> list[str]:
    """Every value that begins so; of cursors the newest first, of others in order."""
    if kind == "directory":
        if len(start) > PATH_CHARS or not roots:
            return []
        return await anyio.to_thread.run_sync(lambda: complete_path(start, tuple(roots), directories=True))
    if bench is None:
        return []
    if kind == "cursor":
        return [cursor for cursor in _cursors(bench) if cursor.startswith(start)]
    # Names are known by their letters and digits, whatever a client writes between them.
    begins = folded(start).lstrip("_")
    return [name for name in bench.handles.names(kind) if name.startswith((start, begins) if begins else start)]


def _cursors(bench: Bench) -> Iterator[str]:
    """Where the log stood ahead of each change, the last of them first."""
    first = max(bench.cursor - _MOST_READ, 0)
    events = bench.session.since(first)
    for offset in range(len(events) - 1, -1, -1):
        if any(changes_of(events[offset])):
            yield str(first + offset)
