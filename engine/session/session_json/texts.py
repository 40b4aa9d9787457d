"""The texts of a document's entries: the beginning in the entry, and the digest of the whole if that is longer.

A whole text is not kept. `Texts` notes which entry has it, so that the entry can be built again to get it. Called by
`document`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final

from ...core.execution import DIRECTORY, UNREAD
from ...core.ids import BlobDigest
from ...core.text import valid_text
from .shapes import Text

INLINE: Final = 1_000
"""The most characters of a text that an entry has. A longer one is a content."""

Place = tuple[str, int | str]
"""An entry: its table and its key."""


class Texts:
    """The long texts and the named contents of a document."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._named: dict[str, str] = {}
        self._place: Place = ("", "")
        self._wanted: str | None = None
        self.found: str | None = None
        """The text that `looking_for` was after; None if no entry had it."""

    @contextmanager
    def of(self, table: str, key: int | str) -> Generator[None]:
        """While this entry is built."""
        before, self._place = self._place, (table, key)
        try:
            yield
        finally:
            self._place = before

    def text(self, text: str) -> Text:
        """Return the text for an entry."""
        text = valid_text(text)
        if len(text) <= INLINE:
            return Text(text)
        digest = digest_of_text(text)
        self._places[digest] = self._place
        if digest == self._wanted:
            self.found = text
        return Text(text[:INLINE], digest, len(text))

    def name(self, digest: str, media_type: str) -> None:
        """Note a content that the log names. `media_type` is empty for a file's, whose kind is unknown."""
        self._named.setdefault(digest, media_type)

    @contextmanager
    def looking_for(self, digest: str) -> Generator[None]:
        """Keep the text of this digest, if an entry that is built meanwhile has it, in `found`."""
        self._wanted, self.found = digest, None
        try:
            yield
        finally:
            self._wanted = None

    def place(self, digest: str) -> Place | None:
        """Return an entry that has the text of this digest."""
        return self._places.get(digest)

    @property
    def long(self) -> Mapping[str, Place]:
        """The long texts by digest, each with an entry that has it."""
        return self._places

    @property
    def named(self) -> Mapping[str, str]:
        """The contents that the log names, each with its media type."""
        return self._named


def digest_of_text(text: str) -> str:
    """Return the digest of a text, in the form that the store uses for contents."""
    return f"blake2b-{blake2b(text.encode(), digest_size=20).hexdigest()}"


def file_content(digest: BlobDigest | None, state: str) -> str | None:
    """Return the digest of a file's content, or None for a state that has none."""
    return None if state.startswith((UNREAD, DIRECTORY)) else digest
