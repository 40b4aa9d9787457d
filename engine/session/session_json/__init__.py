"""The JSON of a whole session: `shapes` says what it has, `document` makes it of events, `contents` reads contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ...core.ids import BlobDigest
from ...log.events import Event
from ...log.redaction import Redactor
from .contents import Contents
from .document import SessionDocument
from .shapes import SCHEMA, TABLES, Comparison, Content, Patch, Text

__all__ = [
    "SCHEMA",
    "TABLES",
    "Comparison",
    "Content",
    "Contents",
    "Patch",
    "SessionDocument",
    "Text",
    "encoded",
    "session_json",
]


def session_json(
    session_id: str, events: Iterable[Event], blob_get: Callable[[BlobDigest], bytes], hidden: Redactor
) -> bytes:
    """Return a session as one JSON object, with all contents and without secrets.

    Args:
        events: the whole log, without secrets.
        blob_get: `Store.blob_get`.
    """
    contents = Contents(blob_get, hidden)
    document = SessionDocument(session_id, contents.text)
    for event in events:
        document.apply(event)
    whole = document.document()
    return encoded({**whole, "contents": dict(contents.all(document))})


def encoded(patch: Patch) -> bytes:
    """Return a document, or changes of one, as JSON in UTF-8."""
    return msgspec.json.encode(patch)
