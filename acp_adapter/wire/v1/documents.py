"""What a client says of its documents in version 1: `document/did*`."""

from __future__ import annotations

from typing import Final

from acp_adapter.requests import (
    DocumentChange,
    DocumentChanged,
    DocumentFocused,
    DocumentOpened,
    DocumentRef,
    Position,
)
from acp_adapter.wire.codec import Writers
from acp_adapter.wire.model import from_wire
from acp_adapter.wire.v1.shapes.documents import (
    ContentChange,
    DidChangeNotification,
    DidFocusNotification,
    DidOpenNotification,
    DocumentNotification,
)


def _read_opened(params: object) -> DocumentOpened:
    opened = from_wire(DidOpenNotification, params)
    return DocumentOpened(opened.uri, opened.version, opened.text)


def _read_changed(params: object) -> DocumentChanged:
    changed = from_wire(DidChangeNotification, params)
    return DocumentChanged(changed.uri, changed.version, tuple(map(_change, changed.content_changes)))


def _change(change: ContentChange) -> DocumentChange:
    if change.range is None:
        return DocumentChange(change.text)
    start, end = change.range.start, change.range.end
    return DocumentChange(change.text, Position(start.line, start.character), Position(end.line, end.character))


def _read_ref(params: object) -> DocumentRef:
    return DocumentRef(from_wire(DocumentNotification, params).uri)


def _read_focused(params: object) -> DocumentFocused:
    focused = from_wire(DidFocusNotification, params)
    return DocumentFocused(focused.uri, focused.version)


READERS: Final = {
    "document/didOpen": _read_opened,
    "document/didChange": _read_changed,
    "document/didSave": _read_ref,
    "document/didClose": _read_ref,
    "document/didFocus": _read_focused,
}
WRITERS: Final[Writers] = {}
