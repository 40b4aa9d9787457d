"""Keeps what nodes saw: the content of each revision that a worker reports, as a blob, once.

A worker sends a content once, whatever number of revisions have it; which are kept already is told by the log. One that
holds a secret is not kept, nor a page of a large text that begins or ends within one. Called by whoever records what a
statement or a tick came to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

import anyio.to_thread
from msgspec.structs import replace

from ...core.errors import StoreError
from ...core.ids import BlobDigest
from ...files.paging import is_page
from ...log.events import Event
from ...log.events.nodes import AdoptedContent, AsyncPayloadPrepared, ContentsAdopted, RevisionAdopted, seen_in
from ...log.redaction import Redactor, Storable, withheld
from ...log.store_protocol import Store

_Seen = TypeVar("_Seen", RevisionAdopted, AdoptedContent)


class Revisions:
    """The contents of one session's revisions. `apply` follows its log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((RevisionAdopted, ContentsAdopted, AsyncPayloadPrepared))

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._kept: dict[str, BlobDigest] = {}
        self._withheld: dict[str, str] = {}
        self._doubtful: dict[str, Storable] = {}
        """Contents that may end within a secret, until an event says whether they were cut."""

    def apply(self, event: Event) -> None:
        """For the log alone."""
        if isinstance(event, AsyncPayloadPrepared):
            # The tick that takes it names its content without sending that, perhaps after the session was loaded again.
            if event.payload_kind == "render" and event.data is not None:
                self._kept[event.payload_hash] = event.data
            return
        for seen in seen_in(event):
            if seen.content is not None:
                self._kept[seen.digest] = seen.content
            elif seen.withheld:
                self._withheld[seen.digest] = seen.withheld

    async def take(self, contents: Mapping[str, bytes]) -> None:
        """Keeps contents, by xxh3 hex, for the events that will name them."""
        for digest, data in contents.items():
            # On a thread, because a large content is looked through for every form of every secret.
            storable, may_cut = await anyio.to_thread.run_sync(self._secrets_in, data)
            if storable is None:
                self._withheld[digest] = withheld(data)
            elif may_cut:
                self._doubtful[digest] = storable
            else:
                self._kept[digest] = self._store.blob_put(storable)

    def content(self, digest: str) -> bytes | None:
        """The content of a revision on the log, by its xxh3 hex; None where it is not kept or not to be had."""
        kept = self._kept.get(digest)
        try:
            return None if kept is None else self._store.blob_get(kept)
        except (KeyError, StoreError):
            return None

    def with_contents(self, events: Iterable[Event]) -> Sequence[Event]:
        """The events that a worker reported, each revision with its content."""
        return [self._with_contents(event) for event in events]

    def _with_contents(self, event: Event) -> Event:
        match event:
            case RevisionAdopted():
                return self._named(event)
            case ContentsAdopted(files=files):
                return replace(event, files=tuple(map(self._named, files)))
            case _:
                return event

    def _named(self, seen: _Seen) -> _Seen:
        doubtful = self._doubtful.pop(seen.digest, None)
        if doubtful is not None and is_page(seen.path):
            self._withheld[seen.digest] = withheld(doubtful)
        elif doubtful is not None:
            self._kept[seen.digest] = self._store.blob_put(doubtful)
        # Which content it is, is not the worker's to say.
        return replace(seen, content=self._kept.get(seen.digest), withheld=self._withheld.get(seen.digest, ""))

    def _secrets_in(self, data: bytes) -> tuple[Storable | None, bool]:
        """The content if no secret is in it, and whether one may have been cut by its beginning or its end."""
        storable = self._redactor.storable(data)
        if storable is None or not data or not self._redactor:
            return storable, False
        return storable, self._redactor.is_piece_at_an_end(data.decode("utf-8", "replace"))
