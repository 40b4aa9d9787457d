"""The texts of a document's entries: the beginning in the entry, and the digest of the whole if that is longer.

A whole text is not kept. `Texts` notes which entry has it, so that the entry can be built again to get it. Called by
`document`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from ...core.execution import DIRECTORY, UNREAD
from ...core.ids import BlobDigest
from ...core.text import valid_text
from .shapes import Text

INLINE: Final = 1_000
"""The most characters of a text that an entry has. A longer one is a content."""

_AROUND: Final = 80
"""Characters of an excerpt on each side."""
_WHAT: Final = {
    "statements": "a source",
    "executions": "an output",
    "files": "a difference of a file",
    "conversation": "a message",
    "messages": "a message as it was sent",
}
"""What the long texts of a table are."""

Place = tuple[str, int | str]
"""An entry: its table and its key."""


class Hit(Struct, frozen=True):
    """An entry that has a text, with the text around it; `at` is where it begins in that."""

    place: Place
    excerpt: str
    at: int


class Texts:
    """The long texts and the named contents of a document."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._named: dict[str, str] = {}
        self._place: Place = ("", "")
        self._wanted: str | None = None
        self._needle = ""
        self.hits: list[Hit] = []
        """What `searching` has found."""
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
        if self._needle:
            self.look(text)
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

    @contextmanager
    def searching(self, text: str) -> Generator[None]:
        """Note each entry that is built meanwhile and has this text, in any case, once in `hits`."""
        self._needle, self.hits = text.casefold(), []
        try:
            yield
        finally:
            self._needle = ""

    def look(self, text: str) -> None:
        """Look for what is searched in a text of the entry."""
        at = text.casefold().find(self._needle)
        if at >= 0 and not (self.hits and self.hits[-1].place == self._place):
            start = max(0, at - _AROUND)
            self.hits.append(Hit(self._place, text[start : at + len(self._needle) + _AROUND], at - start))

    def place(self, digest: str) -> Place | None:
        """Return an entry that has the text of this digest."""
        return self._places.get(digest)

    def described(self, digest: str) -> str:
        """Say in a few words what the content of that digest is."""
        if digest in self._places:
            return _WHAT.get(self._places[digest][0], "a text")
        media_type = self._named.get(digest, "")
        return "a picture" if media_type.startswith("image/") else "a part of a prompt" if media_type else "a file"

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
