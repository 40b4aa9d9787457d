"""The prompts that a person may choose: a request in words, with the tools that serve it. Must not know MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mcp_tools.arguments import ArgumentError
from mcp_tools.tools.tick import changes_text

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

_TOKENS: Final = 8000
_CURSOR_DIGITS: Final = 18


class PromptRow(Struct, frozen=True):
    """One prompt: its name, a title and words for people, and its arguments, none of which is needed."""

    name: str
    title: str
    words: str
    arguments: Mapping[str, str]


PROMPTS: Final = {
    row.name: row
    for row in (
        PromptRow(
            "orient",
            "Get to know a project",
            "An overview of a directory under one budget, then what to read first",
            {"path": "the directory, the whole project if left out"},
        ),
        PromptRow(
            "review-changes",
            "Review what changed",
            "What changed in the files that views and groups follow, to be reviewed",
            {"since": "a cursor of `tick`; everything that this session has seen if left out"},
        ),
    )
}
_ORIENT: Final = """\
Get to know {where} before you do anything else. Call `group` with name "overview", add [{glob}], lod 1 and tokens 4000:
it shows what the files declare, the most referred to first. Then open with `view` the two or three files that matter
most, at lod 1 and with follow, and tell me in a few sentences what this is, how it is built, and where to begin."""
_REVIEW: Final = """\
Review these changes as a careful colleague would: what may break, what is missing, what is unclear. Look at the places
with `view` where a diff does not show enough, and name file and line for each point.

{changes}"""


def orient(path: str) -> str:
    """The request for an overview of a directory."""
    below = path.strip().strip("/")
    where = f"the directory {below}" if below not in ("", ".") else "this project"
    glob = f'"{below}/**/*"' if below not in ("", ".") else '"**/*"'
    return _ORIENT.format(where=where, glob=glob)


async def review(bench: Bench | None, since: str) -> str:
    """The request for a review of what changed since a cursor; of everything, where it is empty.

    Raises:
        ArgumentError: that is no cursor.
    """
    if bench is None:
        return _REVIEW.format(changes="Nothing changed yet: nothing is followed. Begin with `view` or `group`.")
    if since and (not since.isdecimal() or len(since) > _CURSOR_DIGITS or int(since) > bench.cursor):
        raise ArgumentError(f"`since` is a cursor of `tick`, at most {bench.cursor}.")
    items = bench.changes(int(since or 0))
    return _REVIEW.format(changes=await changes_text(bench, items, _TOKENS))
