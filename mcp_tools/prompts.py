"""The prompts that users can choose, and the completion of arguments of prompts and resource templates.

A prompt is a request in words that names the tools to use. Completions come from the session's own names and cursors,
and from its directories. Never knows MCP. Called by `requests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import anyio.to_thread
from msgspec import Struct

from mcp_tools.replies import ArgumentError
from mcp_tools.tools.history import changes_text
from mcp_tools.tools.schema import MAX_PATH_CHARS

if TYPE_CHECKING:  # loaded after the client has its first response
    from mcp_tools.client_session import ClientSession

_TOKENS: Final = 8000
_MAX_CURSOR_DIGITS: Final = 18


class PromptRow(Struct, frozen=True):
    """One prompt, with its optional arguments and their descriptions."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]


PROMPTS: Final = {
    row.name: row
    for row in (
        PromptRow(
            "orient",
            "Get to know a project",
            "Get an overview of a directory within one budget, then read the important files",
            {"path": "a directory; default: the whole project"},
        ),
        PromptRow(
            "review-changes",
            "Review what changed",
            "Review the changes in the files that views and groups follow",
            {"since": "a cursor of `tick`; default: all changes that this session has seen"},
        ),
    )
}
_ORIENT: Final = (
    'Get to know {where} before you do anything else. Call `group` with name "overview", add [{glob}], '
    "lod 1 and tokens 4000:\nthe group shows the symbols of the files, most referenced files first. Then "
    "open the two or three most important files with `view`,\nat lod 1 and with follow. Tell me in a few "
    "sentences what this is, how it is built, and where to begin."
)
_REVIEW: Final = """\
Review these changes as a careful colleague would: what may break, what is missing, what is unclear. If a diff does not
show enough, look at the file with `view`. Name file and line for each point.

{changes}"""
NO_CHANGES: Final = "Nothing changed yet, because no view or group exists. Begin with `view` or `group`."


def orient(path: str) -> str:
    """Ask for an overview of a directory."""
    below = path.strip().strip("/")
    where = f"the directory {below}" if below not in ("", ".") else "this project"
    glob = f'"{below}/**/*"' if below not in ("", ".") else '"**/*"'
    return _ORIENT.format(where=where, glob=glob)


async def review(session: ClientSession | None, since: str) -> str:
    """Ask for a review of the changes since a cursor, or of all changes if it is empty.

    Raises:
        ArgumentError: the cursor is invalid.
    """
    if session is None:
        return _REVIEW.format(changes=NO_CHANGES)
    if since and (not since.isdecimal() or len(since) > _MAX_CURSOR_DIGITS or int(since) > session.cursor):
        raise ArgumentError(f"`since` must be a cursor that `tick` returned, at most {session.cursor}.")
    items = session.changes(int(since or 0))
    return _REVIEW.format(changes=await changes_text(session, items, _TOKENS))


# --- completions ------------------------------------------------------------------------------------------------------

CompletionKind = Literal["view", "group", "cursor", "directory"]
COMPLETED: Final[dict[tuple[str, str], CompletionKind]] = {
    ("view://{name}", "name"): "view",
    ("group://{name}", "name"): "group",
    ("changes://{cursor}", "cursor"): "cursor",
    ("review-changes", "since"): "cursor",
    ("orient", "path"): "directory",
}
"""The arguments with completions, by template or prompt and argument name."""


async def completions(
    kind: CompletionKind, start: str, session: ClientSession | None, roots: Sequence[str]
) -> list[str]:
    """All values that begin with `start`; cursors newest first, other values in order."""
    if kind == "directory":
        return [] if len(start) > MAX_PATH_CHARS or not roots else await _directories(start, tuple(roots))
    if session is None:
        return []
    if kind == "cursor":
        return [cursor for cursor in session.change_cursors() if cursor.startswith(start)]
    return session.handles.completions(kind, start)


async def _directories(start: str, roots: tuple[str, ...]) -> list[str]:
    from engine import complete_path  # after the first response

    return await anyio.to_thread.run_sync(lambda: complete_path(start, roots, directories=True))
