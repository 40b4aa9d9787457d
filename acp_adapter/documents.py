"""What a client says of the documents that it has open: their texts and versions, as `document/did*` tells them.

Owns how a change is applied, and what is believed. Pure. Must not know who wants a text. Kept by the connection,
because an editor has one buffer of a file, whatever session looks at it; filled by handlers, read by `editor_files`.

A client may be wrong: about a version, because it missed one of its own, or about a range. Then the text is not known
any more, which is no error: whoever wants it asks for it (`fs/read_text_file`), or goes by the disk until the client
sends a whole text. That a version goes on is never relied on: each notification counts as a change of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from acp_adapter.requests import DocumentChange, Position

LARGEST: Final = 16 << 20
"""Characters of the longest text that is kept; as many bytes of a file a view reads."""
_EDITED: Final = 2 << 20
"""Characters of the longest text that ranges are applied to: each takes a pass over it."""
_TOGETHER: Final = 64 << 20
"""Characters that all texts have at most."""
_MOST: Final = 10_000
"""Documents; of further ones nothing is known."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BEYOND_BMP: Final = 0xFFFF


class Document:
    """One that is open. `text` is None where it is not known; `version` is the client's, `changes` counts ours.

    `is_saved`: it was saved since it changed last, so that the file has its text.
    """

    __slots__ = ("changes", "is_saved", "text", "version")

    def __init__(self, version: int, text: str | None) -> None:
        self.version = version
        self.text = text
        self.changes = 0
        self.is_saved = False


class Documents:
    """All that are open, by absolute path as the client spells it."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.announces = False
        """Whether the client says what it opens, so that what it has not opened is as it is on disk."""

    def follow(self, moved: Callable[[str], None]) -> Callable[[], None]:
        """Has `moved` called with the path of each document that may have another text; returns what ends that."""
        self._listeners.append(moved)
        return lambda: self._listeners.remove(moved)

    @property
    def paths(self) -> Collection[str]:
        """Of those that are open."""
        return self._open.keys()

    def find(self, path: str) -> Document | None:
        """The document at a path, where it is open."""
        return self._open.get(path)

    # --- what the client says -----------------------------------------------------------------------------------------

    def did_open(self, uri: str, version: int, text: str) -> None:
        self.announces = True
        path = path_of(uri)
        if path is not None and (path in self._open or len(self._open) < _MOST):
            self._open.pop(path, None)
            document = self._open[path] = Document(version, None)
            self._set(path, document, text)

    def did_change(self, uri: str, version: int, changes: Sequence[DocumentChange]) -> None:
        path, document = self._document(uri, version)
        if document is None:
            return
        is_next = version > document.version
        document.version = version
        known = next((at for at in reversed(range(len(changes))) if changes[at].is_whole), None)
        text = changes[known].text if known is not None else document.text if is_next else None
        for change in changes[0 if known is None else known + 1 :]:
            text = None if text is None else _applied(text, change)
        self._set(path, document, text)

    def did_save(self, uri: str) -> None:
        """The text is on disk now."""
        path = path_of(uri)
        if path is not None and (document := self._open.get(path)) is not None:
            document.is_saved = True
            self._tell(path)

    def did_close(self, uri: str) -> None:
        """Whatever was not saved is gone."""
        path = path_of(uri)
        if path is not None and self._open.pop(path, None) is not None:
            self._tell(path)

    def did_focus(self, uri: str, version: int) -> None:
        """Of another version than was told, the text is not known."""
        path, document = self._document(uri, version)
        if document is not None and document.version != version:
            document.version = version
            self._set(path, document, None)

    # --- what others learn of a text ----------------------------------------------------------------------------------

    def learn(self, path: str, document: Document, changes: int, text: str) -> None:
        """The client was asked for a text that was not known, when the document had seen so many changes."""
        if self._open.get(path) is document and document.changes == changes:
            document.text = text if self._has_room(document, text) else None

    def wrote(self, path: str, text: str) -> None:
        """The client has put that text into the file and into the document, as it was asked to."""
        if (document := self._open.get(path)) is not None:
            self._set(path, document, text)
            document.is_saved = True
        else:
            self._tell(path)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _document(self, uri: str, version: int) -> tuple[str, Document | None]:
        """One that the client speaks of, be it that its opening was missed."""
        path = path_of(uri)
        if path is None:
            return "", None
        if path not in self._open and len(self._open) < _MOST:
            self.announces = True
            self._open[path] = Document(version, None)
            self._tell(path)
        return path, self._open.get(path)

    def _set(self, path: str, document: Document, text: str | None) -> None:
        document.text = None
        document.text = text if text is not None and self._has_room(document, text) else None
        document.changes += 1
        document.is_saved = False
        self._tell(path)

    def _has_room(self, document: Document, text: str) -> bool:
        others = sum(len(each.text or "") for each in self._open.values() if each is not document)
        return len(text) <= LARGEST and others + len(text) <= _TOGETHER

    def _tell(self, path: str | None) -> None:
        for moved in tuple(self._listeners) if path is not None else ():
            moved(path or "")


def path_of(uri: str) -> str | None:
    """The absolute path that a `file:` URI or a path names; None where it names no file of this machine."""
    if uri.startswith("/"):
        return None if "\0" in uri else uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path, errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else None


def _applied(text: str, change: DocumentChange) -> str | None:
    """The text with a range replaced; None where there is no such range, or looking for it would take too long."""
    if len(text) > _EDITED or change.start is None or change.end is None:
        return None
    start, end = _offset(text, change.start), _offset(text, change.end)
    if start is None or end is None or end < start:
        return None
    return text[:start] + change.text + text[end:]


def _offset(text: str, position: Position) -> int | None:
    """Where a position is, in characters. One behind the end of its line is at that end, as in the protocol of LSP."""
    at = 0
    for _ in range(position.line):
        found = _LINE_END.search(text, at)
        if found is None:
            return None
        at = found.end()
    found = _LINE_END.search(text, at)
    line = text[at : len(text) if found is None else found.start()]
    if line.isascii():
        return at + min(position.character, len(line))
    units = 0
    for index, char in enumerate(line):
        if units >= position.character:
            return at + index
        units += 2 if ord(char) > _BEYOND_BMP else 1
    return at + len(line)
