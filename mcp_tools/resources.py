"""The resources that clients can read: each handle, the timeline, and the changes since a cursor.

Owns the URIs. Reading has no side effects and never waits for a statement. Never knows MCP. Called by `requests` and
`notifications`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Struct

from engine.core.text import cut_line
from mcp_tools.replies import handle_reply
from mcp_tools.tools.history import NO_STATEMENT, changes_text, timeline_text

if TYPE_CHECKING:  # loaded after the client has its first response
    from mcp_tools.client_session import ClientSession

MAX_TOKENS: Final = 20_000
"""Token budget of one resource."""
TIMELINE_URI: Final = "timeline://session"
TEMPLATES: Final = {
    "view://{name}": "the current content of a view",
    "group://{name}": "the current content of a group",
    "changes://{cursor}": "all changes since a cursor of `tick`",
}
_URI: Final = re.compile(r"(view|group|changes)://(.{1,2000}?)/?", re.DOTALL)
_CURSOR: Final = re.compile(r"[0-9]{1,64}")
_MAX_SHOWN: Final = 20


class UnknownResourceError(Exception):
    """Raised for an unknown URI; the message lists existing ones."""


class Resource(Struct, frozen=True):
    """An existing resource."""

    uri: str
    name: str
    description: str


def existing(session: ClientSession | None) -> list[Resource]:
    """List the resources; without a session there is only the timeline."""
    handles = None if session is None else session.handles
    found = [] if handles is None else [(name, handles.kind(name)) for name in handles.names()]
    return [
        *(Resource(f"{kind}://{name}", name, f"the current content of the {kind} {name}") for name, kind in found),
        Resource(TIMELINE_URI, "timeline", "the statements of this session"),
    ]


async def read(session: ClientSession | None, uri: str) -> str:
    """Return the text of a resource. The URI of a handle has its identifier, or the client's first name for it.

    Raises:
        UnknownResourceError: there is no such resource.
    """
    if uri == TIMELINE_URI:
        return NO_STATEMENT if session is None else await timeline_text(session, MAX_TOKENS)
    found = _URI.fullmatch(uri)
    if session is None or found is None:
        raise _unknown(uri, session)
    kind, alias = found[1], unquote(found[2])
    if kind == "changes":
        return await _read_changes(session, found[2], uri)
    name = session.handles.resolve_exact(alias)
    if name is None or session.handles.kind(name) != kind:
        raise _unknown(uri, session)
    display = (await session.look([name], MAX_TOKENS)).shown.get(name)
    if display is None:
        raise _unknown(uri, session)
    return handle_reply(name, display, alias=alias).text


async def _read_changes(session: ClientSession, cursor: str, uri: str) -> str:
    if _CURSOR.fullmatch(cursor) is None or int(cursor) > session.cursor:
        raise _unknown(uri, session)
    text = await changes_text(session, session.changes(int(cursor)), MAX_TOKENS)
    return f"{text}\ncursor {session.cursor}"


def canonical_uri(session: ClientSession, uri: str) -> str:
    """The URI that the list of resources has for a handle; other URIs are returned unchanged."""
    found = _URI.fullmatch(uri)
    name = None if found is None or found[1] == "changes" else session.handles.resolve_exact(unquote(found[2]))
    return uri if name is None or found is None else f"{found[1]}://{name}"


def _unknown(uri: str, session: ClientSession | None) -> UnknownResourceError:
    uris = ", ".join(each.uri for each in existing(session)[-_MAX_SHOWN:])
    return UnknownResourceError(f"Unknown resource: {cut_line(uri, 200)}; the known resources are {uris}")
