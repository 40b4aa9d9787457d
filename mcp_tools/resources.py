"""What clients may read beside the tools: each handle as it is, what ran, what changed since a cursor.

Read through looks, so that reading changes nothing and waits for no statement's turn. Owns the URIs. Must not know MCP.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mcp_tools.replies import handle_reply
from mcp_tools.tools.tick import changes_text
from mcp_tools.tools.timeline import listing

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from mcp_tools.bench import Bench

MOST_TOKENS: Final = 20_000
"""Of one resource."""
TIMELINE: Final = "timeline://session"
TEMPLATES: Final = {
    "view://{name}": "a view, as it is",
    "group://{name}": "a group, as it is",
    "changes://{cursor}": "what changed since a cursor of `tick`",
}
_URI: Final = re.compile(r"(view|group|changes)://([A-Za-z0-9_]{1,64})/?")


class NoResourceError(Exception):
    """Raised where there is no such resource; the message says what there is."""


class Entry(Struct, frozen=True):
    """A resource that is there: its URI, its name, and what it is in a few words."""

    uri: str
    name: str
    words: str


def entries(bench: Bench | None) -> list[Entry]:
    """What there is to read; of no session its timeline alone."""
    handles = None if bench is None else bench.handles
    found = [] if handles is None else [(name, handles.kind(name)) for name in handles.names()]
    return [
        *(Entry(f"{kind}://{name}", name, f"the {kind} {name}, as it is") for name, kind in found),
        Entry(TIMELINE, "timeline", "the statements of this session"),
    ]


async def read(bench: Bench | None, uri: str) -> str:
    """The text of a resource.

    Raises:
        NoResourceError: there is none of that URI.
    """
    if uri == TIMELINE:
        return "No statement has run yet." if bench is None else await listing(bench, MOST_TOKENS)
    found = _URI.fullmatch(uri)
    if bench is None or found is None:
        raise _none(uri, bench)
    kind, name = found.groups()
    if kind == "changes":
        return await _changes(bench, name, uri)
    if bench.handles.kind(name) != kind:
        raise _none(uri, bench)
    display = (await bench.look([name], MOST_TOKENS)).shown.get(name)
    if display is None:
        raise _none(uri, bench)
    return handle_reply(name, display).text


async def _changes(bench: Bench, cursor: str, uri: str) -> str:
    if not cursor.isdecimal() or int(cursor) > bench.cursor:
        raise _none(uri, bench)
    text = await changes_text(bench, bench.changes(int(cursor)), MOST_TOKENS)
    return f"{text}\ncursor {bench.cursor}"


def _none(uri: str, bench: Bench | None) -> NoResourceError:
    there = ", ".join(entry.uri for entry in entries(bench)[-_SHOWN:])
    return NoResourceError(f"Unknown resource: {uri[:200]}; there are {there}")


_SHOWN: Final = 20
