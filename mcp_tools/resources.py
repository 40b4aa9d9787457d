"""What clients may read beside the tools: each handle as it is, what ran, what changed since a cursor.

Read through looks, so that reading changes nothing and waits for no statement's turn. Owns the URIs. Must not know MCP.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Struct

from engine import cut_line
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
_URI: Final = re.compile(r"(view|group|changes)://(.{1,2000}?)/?", re.DOTALL)


_CURSOR: Final = re.compile(r"[0-9]{1,64}")


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
    """The text of a resource. A handle has the URI of its name, and of what its client first called it.

    Raises:
        NoResourceError: there is none of that URI.
    """
    if uri == TIMELINE:
        return "No statement has run yet." if bench is None else await listing(bench, MOST_TOKENS)
    found = _URI.fullmatch(uri)
    if bench is None or found is None:
        raise _none(uri, bench)
    kind, asked = found[1], unquote(found[2])
    if kind == "changes":
        return await _changes(bench, found[2], uri)
    name = bench.handles.called(asked)
    if name is None or bench.handles.kind(name) != kind:
        raise _none(uri, bench)
    display = (await bench.look([name], MOST_TOKENS)).shown.get(name)
    if display is None:
        raise _none(uri, bench)
    return handle_reply(name, display, asked=asked).text


async def _changes(bench: Bench, cursor: str, uri: str) -> str:
    if _CURSOR.fullmatch(cursor) is None or int(cursor) > bench.cursor:
        raise _none(uri, bench)
    text = await changes_text(bench, bench.changes(int(cursor)), MOST_TOKENS)
    return f"{text}\ncursor {bench.cursor}"


def canonical(bench: Bench, uri: str) -> str:
    """The URI by which the resource is listed; one that is none of a handle is returned as it is."""
    found = _URI.fullmatch(uri)
    name = None if found is None or found[1] == "changes" else bench.handles.called(unquote(found[2]))
    return uri if name is None or found is None else f"{found[1]}://{name}"


def _none(uri: str, bench: Bench | None) -> NoResourceError:
    there = ", ".join(entry.uri for entry in entries(bench)[-_SHOWN:])
    return NoResourceError(f"Unknown resource: {cut_line(uri, 200)}; there are {there}")


_SHOWN: Final = 20
