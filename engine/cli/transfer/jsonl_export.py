"""A session as JSON Lines: a header, then the events as the codec writes them, contents before the events naming them.

`{"blob": <digest>, "data": <base64>}` stands before the first event that holds the digest, and for content that cannot
be read `{"blob": <digest>, "lost": <why>}`, because what is left of a session is worth more than nothing. Contents that
the session dropped are not there, as the log says itself. The same session always gives the same bytes. Must not know
where the bytes go. Called by `rewindow export`; read back by `jsonl_import`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from ...core.errors import StoreError
from ...core.ids import BlobDigest, SessionId
from ...core.text import plural
from ...log.events import Event
from ...log.events.codec import encode
from ...log.events.execution import EffectAnswered, ValuesDropped
from ...log.redaction import NO_SECRETS, Redactor
from ...log.store.schema import digest_of, names_in
from ...log.store_protocol import SessionRow, Store
from .withholding import redact_items

FORMAT: Final = "rewindow-session"
VERSION: Final = 1
_MISSING: Final = "missing"
_PAGE: Final = 1000
"""Events that are in memory at a time."""


def _unsaid(_sentence: str) -> None:
    """For a caller to whom it does not matter what the export does not have."""


def export_lines(
    store: Store, session_id: SessionId, redactor: Redactor = NO_SECRETS, say: Callable[[str], None] = _unsaid
) -> Iterator[bytes]:
    """The lines, each with its newline: all that is committed when the first is asked for, without secrets.

    Args:
        say: is given a sentence on contents that are lost, and one on those that were dropped, after the last line.

    Raises:
        SessionNotFoundError: there is none, or it is deleted meanwhile.
        StoreError: an event of it cannot be read.
    """
    row = store.row(session_id)
    yield _header(row if row.title is None else replace(row, title=redactor.redact(row.title)))
    contents = _Contents(store, session_id)
    items = (item for event in _events(store, row) for item in (*contents.before(event), event))
    for item in redact_items(redactor, items):
        yield from contents.lost_lines()
        yield _blob(item) if isinstance(item, bytes) else encode(item) + b"\n"
    for sentence in contents.sentences():
        say(sentence)


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


class _Contents:
    """The contents of one session, each ahead of the first event that names it, and those that are not to be had."""

    def __init__(self, store: Store, session_id: SessionId) -> None:
        self._store = store
        self._session_id = session_id
        self._waiting = set(store.contents(session_id))
        self._had: set[BlobDigest] = set()
        self._lost: list[tuple[BlobDigest, str]] = []
        self._lost_count = 0
        self._dropped = 0

    def before(self, event: Event) -> Iterator[bytes]:
        """What the event names first and can be read."""
        for name in names_in(encode(event).decode()) if self._waiting else ():
            if name in self._waiting:
                self._waiting.discard(name)
                self._had.add(name)
                yield from self._read(name)
        match event:
            case EffectAnswered(result=result) if result is not None and result not in self._had:
                self._had.add(result)  # because an import takes no answer of which the file says nothing
                self._lost.append((result, _MISSING))
            case ValuesDropped(copies=copies):
                self._dropped += copies
            case _:
                pass

    def _read(self, name: BlobDigest) -> Iterator[bytes]:
        try:
            yield self._store.blob_get(name)
        except KeyError:
            self._lost.append((name, _MISSING))
        except StoreError as error:
            if type(error) is not StoreError:  # because the others say that the whole store cannot be read
                raise
            self._lost.append((name, "damaged"))

    def lost_lines(self) -> Iterator[bytes]:
        """A line for each that was found to be lost since the last call."""
        while self._lost:
            digest, why = self._lost.pop(0)
            self._lost_count += 1
            yield b'{"blob":"%s","lost":"%s"}\n' % (digest.encode(), why.encode())

    def sentences(self) -> Iterator[str]:
        """What the export does not have, for a person."""
        if self._lost_count:
            lost = f"{self._lost_count:,} {plural(self._lost_count, 'content')} of session {self._session_id}"
            yield f"{lost} cannot be read, the export says which; restore the store from a copy to have all"
        if self._dropped:
            kept = f"{self._dropped:,} kept {plural(self._dropped, 'value')}"
            yield f"{kept} had gone from session {self._session_id} before, to stay within past_bytes"


def _blob(data: bytes) -> bytes:
    return b'{"blob":"%s","data":"%s"}\n' % (digest_of(data).encode(), b64encode(data))
