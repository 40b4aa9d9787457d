"""A session as JSON Lines: a header, then the events as the codec writes them, contents before the events naming them.

`{"blob": <digest>, "data": <base64>}` stands before the first event that holds the digest. The same session always
gives the same bytes. Must not know where the bytes go. Called by `rewindow export`; read back by `jsonl_import`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from ..errors import StoreError
from ..events import Event
from ..events.codec import encode
from ..ids import BlobDigest, SessionId
from ..ports import SessionRow, Store
from ..redaction import Redactor
from ..store.blobs import digest_of, names_in
from .withholding import NO_SECRETS, redact_items

FORMAT: Final = "rewindow-session"
VERSION: Final = 1
_PAGE: Final = 1000
"""Events that are in memory at a time."""


def export_lines(store: Store, session_id: SessionId, redactor: Redactor = NO_SECRETS) -> Iterator[bytes]:
    """The lines, each with its newline: all that is committed when the first is asked for, without secrets.

    Raises:
        SessionNotFoundError: there is none, or it is deleted meanwhile.
        StoreError: something of it cannot be read.
    """
    row = store.row(session_id)
    yield _header(row if row.title is None else replace(row, title=redactor.redact(row.title)))
    contents = set(store.contents(session_id))
    items = (item for event in _events(store, row) for item in (*_contents(store, event, contents), event))
    for item in redact_items(redactor, items):
        yield _blob(item) if isinstance(item, bytes) else encode(item) + b"\n"


def _header(row: SessionRow) -> bytes:
    # The standard library, because a directory may be bytes that are no UTF-8, which it can escape and msgspec cannot.
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "session_id": row.session_id,
        "cwd": row.cwd,
        "directories": row.directories,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "events": row.events,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _events(store: Store, row: SessionRow) -> Iterator[Event]:
    # Up to where the row ended, because another process may go on writing.
    due = 0
    while due < row.events:
        page = store.load(row.session_id, due, min(_PAGE, row.events - due))
        for event in page:
            if event.seq != due:
                raise _missing(row.session_id, due)
            yield event
            due += 1
        if not page:
            store.row(row.session_id)  # which says so where it was deleted meanwhile
            raise _missing(row.session_id, due)


def _missing(session_id: SessionId, due: int) -> StoreError:
    return StoreError(f"event {due} of session {session_id} is missing; restore the store from a copy")


def _contents(store: Store, event: Event, waiting: set[BlobDigest]) -> Iterator[bytes]:
    """What the event names first; it is taken out of `waiting`."""
    for name in names_in(encode(event).decode()) if waiting else ():
        if name in waiting:
            waiting.discard(name)
            try:
                yield store.blob_get(name)
            except KeyError:
                raise StoreError(f"content {name} is missing; restore the store from a copy") from None


def _blob(data: bytes) -> bytes:
    return b'{"blob":"%s","data":"%s"}\n' % (digest_of(data).encode(), b64encode(data))
