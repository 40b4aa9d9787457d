"""`document/didOpen`, `didChange`, `didSave`, `didClose` and `didFocus`: shapes and readers.

Source: the types of the same names in the unstable part of ACP v1 for next edit suggestions (`dist/nes` of npm package
`@agentclientprotocol/sdk`, 1.9.0); the official schema files omit them. Lines and characters count from 0, characters
in UTF-16 code units, because no other encoding can be negotiated. The session id in each message may be one for
suggestions only, so it is not read.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from acp_adapter import requests
from acp_adapter.wire import ForgivingModel, from_wire

U32 = Annotated[int, Field(ge=0, lt=2**32)]


class Position(ForgivingModel):
    line: U32
    character: U32


class Range(ForgivingModel):
    """The end is exclusive."""

    start: Position
    end: Position


class ContentChange(ForgivingModel):
    """Without a range, `text` is the whole document. A malformed range is an error, not a missing range."""

    strict_fields = frozenset({"range"})

    range: Range | None = None
    text: str


class DidOpenNotification(ForgivingModel):
    uri: str
    version: int
    text: str


class DidChangeNotification(ForgivingModel):
    uri: str
    version: int
    content_changes: list[ContentChange]


class DocumentNotification(ForgivingModel):
    """The params of didSave and didClose."""

    uri: str


class DidFocusNotification(ForgivingModel):
    uri: str
    version: int


def _read_opened(params: object) -> requests.DocumentOpened:
    opened = from_wire(DidOpenNotification, params)
    return requests.DocumentOpened(opened.uri, opened.version, opened.text)


def _read_changed(params: object) -> requests.DocumentChanged:
    changed = from_wire(DidChangeNotification, params)
    return requests.DocumentChanged(changed.uri, changed.version, tuple(map(_change, changed.content_changes)))


def _change(change: ContentChange) -> requests.DocumentChange:
    if change.range is None:
        return requests.DocumentChange(change.text)
    return requests.DocumentChange(change.text, _position(change.range.start), _position(change.range.end))


def _position(position: Position) -> requests.Position:
    return requests.Position(position.line, position.character)


def _read_ref(params: object) -> requests.DocumentRef:
    return requests.DocumentRef(from_wire(DocumentNotification, params).uri)


def _read_focused(params: object) -> requests.DocumentFocused:
    focused = from_wire(DidFocusNotification, params)
    return requests.DocumentFocused(focused.uri, focused.version)


READERS: Final = {
    "document/didOpen": _read_opened,
    "document/didChange": _read_changed,
    "document/didSave": _read_ref,
    "document/didClose": _read_ref,
    "document/didFocus": _read_focused,
}
WRITERS: Final[dict[str, Any]] = {}
