"""The client's files: its open documents (`Documents`), and the text of files for one session (`EditorFiles`).

`Documents` belongs to the connection, because an editor has one buffer for a file whatever session reads it. Handlers
fill it with `document/did*`. It is pure. `EditorFiles` implements the engine's `Editor` with what the client offers,
and is made by the connection for each conversation. It decides whether to ask the client, and how long to wait; it
never asks for a text that `Documents` has.

A client may send a wrong version, because it missed a change of its own, or a wrong range. The text is then unknown,
which is not an error: `EditorFiles` asks for it (`fs/read_text_file`), or uses the disk until the client sends a whole
text. Versions are not assumed to increase; each notification counts as a change.

A client that sends no document notifications cannot report changes either. Users type between two prompts, so each
prompt counts as a change of every file. A client that did not answer in time is not asked again before the next prompt.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from acp_adapter import v1
from acp_adapter.jsonrpc.dispatch import Remote
from acp_adapter.jsonrpc.messages import Code, ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.requests import DocumentChange, Position
from engine.log.redaction import Redactor

LARGEST: Final = 16 << 20
"""Limit of a stored text in characters. A view reads as many bytes of a file."""
_EDITED: Final = 2 << 20
"""Limit of a text, in characters, that ranges are applied to: each range takes a pass over it."""
_TOGETHER: Final = 64 << 20
"""Limit of all stored texts together, in characters."""
_MOST: Final = 10_000
"""Limit of open documents; others are ignored."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BEYOND_BMP: Final = 0xFFFF


class Document:
    """An open document. `text` is None if unknown; `version` is the client's; `changes` counts changes here.

    `is_saved`: it was saved after its last change, so the file has its text.
    """

    __slots__ = ("changes", "is_saved", "text", "version")

    def __init__(self, version: int, text: str | None) -> None:
        self.version = version
        self.text = text
        self.changes = 0
        self.is_saved = False


class Documents:
    """The open documents, by absolute path as the client spells it."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}
        self._saved: dict[str, int] = {}
        """When each document was saved last, in nanoseconds since the epoch; the latest stand last."""
        self._listeners: list[Callable[[str], None]] = []
        self.announces = False
        """Whether the client sends document notifications. Files that it has not opened are then the same on disk."""

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the path of each document whose text may have changed; return how to unsubscribe."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def paths(self) -> Collection[str]:
        """The paths of the open documents."""
        return self._open.keys()

    def find(self, path: str) -> Document | None:
        """Return the open document at a path, if there is one."""
        return self._open.get(path)

    def saved_since(self, moment: int) -> Collection[str]:
        """Return the paths of documents that were saved since, in nanoseconds since the epoch."""
        return [path for path, at in self._saved.items() if at >= moment]

    # --- notifications of the client ----------------------------------------------------------------------------------

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
        whole = next((index for index in reversed(range(len(changes))) if changes[index].is_whole), None)
        text = changes[whole].text if whole is not None else document.text if is_next else None
        for change in changes[0 if whole is None else whole + 1 :]:
            text = None if text is None else _applied(text, change)
        self._set(path, document, text)

    def did_save(self, uri: str) -> None:
        """The file has the text now."""
        path = path_of(uri)
        if path is not None and (document := self._open.get(path)) is not None:
            document.is_saved = True
            self._saved.pop(path, None)
            self._saved[path] = time.time_ns()
            if len(self._saved) > _MOST:
                del self._saved[next(iter(self._saved))]
            self._notify(path)

    def did_close(self, uri: str) -> None:
        """Unsaved text is discarded."""
        path = path_of(uri)
        if path is not None and self._open.pop(path, None) is not None:
            self._notify(path)

    def did_focus(self, uri: str, version: int) -> None:
        """If the version is unexpected, a change was missed, and the text is unknown."""
        path, document = self._document(uri, version)
        if document is not None and document.version != version:
            document.version = version
            self._set(path, document, None)

    # --- texts from `EditorFiles` -------------------------------------------------------------------------------------

    def learn(self, path: str, document: Document, changes: int, text: str) -> None:
        """Store a requested text, unless the document changed since the request (`changes` was its count)."""
        if self._open.get(path) is document and document.changes == changes:
            document.text = text if self._has_room(document, text) else None

    def wrote(self, path: str, text: str) -> None:
        """The client wrote this text into the file and the document, on request."""
        if (document := self._open.get(path)) is not None:
            self._set(path, document, text)
            document.is_saved = True
        else:
            self._notify(path)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _document(self, uri: str, version: int) -> tuple[str, Document | None]:
        """Return the document of a notification; add it if its opening was missed."""
        path = path_of(uri)
        if path is None:
            return "", None
        if path not in self._open and len(self._open) < _MOST:
            self.announces = True
            self._open[path] = Document(version, None)
            self._notify(path)
        return path, self._open.get(path)

    def _set(self, path: str, document: Document, text: str | None) -> None:
        document.text = None
        document.text = text if text is not None and self._has_room(document, text) else None
        document.changes += 1
        document.is_saved = False
        self._notify(path)

    def _has_room(self, document: Document, text: str) -> bool:
        others = sum(len(each.text or "") for each in self._open.values() if each is not document)
        return len(text) <= LARGEST and others + len(text) <= _TOGETHER

    def _notify(self, path: str) -> None:
        for listener in tuple(self._listeners):
            listener(path)


def path_of(uri: str) -> str | None:
    """Return the absolute path of a `file:` URI or a path; None if it is not a local file."""
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
    """Return the text with a range replaced; None if the range does not exist or the text is too long."""
    if len(text) > _EDITED or change.start is None or change.end is None:
        return None
    start, end = _offset(text, change.start), _offset(text, change.end)
    if start is None or end is None or end < start:
        return None
    return text[:start] + change.text + text[end:]


def _offset(text: str, position: Position) -> int | None:
    """Return the index of a position. A position after the end of its line is at that end, as in LSP."""
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


READ: Final = "fs/read_text_file"
WRITE: Final = "fs/write_text_file"
READ_SECONDS: Final = 2.0
WRITE_SECONDS: Final = 10.0


class EditorFiles:
    """The client's text of files for one session.

    `reads` and `writes`: the methods that the client offers. `spelled` returns a path as the client spells it. Requests
    have the exact path of a file. A path that does not exist may be made from a file's content, so a path in which
    `redactor` finds a secret is only sent if the file exists.
    """

    def __init__(
        self,
        session_id: str,
        documents: Documents,
        peer: Remote,
        spelled: Callable[[str], str],
        *,
        redactor: Redactor,
        reads: bool,
        writes: bool,
    ) -> None:
        self._session_id = session_id
        self._documents = documents
        self._peer = peer
        self._spelled = spelled
        self.redactor = redactor
        self._reads = reads
        self._writes = writes
        self._is_silent = False
        self._asked: dict[str, set[str]] = {}
        """The requested paths, by the client's spelling."""
        self._moved: set[str] | None = None
        """Paths whose text may have changed, as the client spells them; None means all."""
        self._was_announced = False
        self.close: Final = documents.subscribe(self._note_moved)
        """Stop following the documents. Call it once."""

    def _note_moved(self, path: str) -> None:
        if self._documents.announces and not self._was_announced:
            self._was_announced, self._moved = True, None
        if self._moved is not None:
            self._moved.add(path)

    def user_acted(self) -> None:
        """The user sent a prompt."""
        self._is_silent = False
        if not self._documents.announces:
            self._moved = None

    # --- for the engine -----------------------------------------------------------------------------------------------

    @property
    def offers(self) -> bool:
        """Whether the client may have texts that differ from the disk."""
        return self._reads or self._documents.announces

    @property
    def writes(self) -> bool:
        return self._writes

    @property
    def opened(self) -> Collection[str]:
        """The paths of the client's open documents."""
        return self._documents.paths

    def saved_since(self, moment: int) -> Collection[str]:
        """Return the paths of documents that the user has saved since, in nanoseconds since the epoch."""
        return self._documents.saved_since(moment)

    def take_moved(self) -> Collection[str] | None:
        """Return and forget the paths whose text may have changed, in all their spellings; None means all."""
        moved, self._moved = self._moved, set()
        if moved is None:
            return None
        return {path for spelling in moved for path in (spelling, *self._asked.get(spelling, ()))}

    async def read(self, path: str) -> str | None:
        """Return the client's text; None if it has none or does not tell.

        Raises:
            TimeoutError: it did not answer in time.
            LookupError: the document is open with unsaved text, and the client does not tell which.
        """
        spelling = self._spelling(path)
        self._asked.setdefault(spelling, set()).add(path)
        document = self._documents.find(spelling)
        if document is None:
            return None if self._documents.announces else await self._ask(spelling)
        return document.text if document.text is not None else await self._fetch(spelling, document)

    def _spelling(self, path: str) -> str:
        """Return the path under which the client opened the document, or would."""
        return path if self._documents.find(path) is not None else self._spelled(path)

    async def _fetch(self, spelling: str, document: Document) -> str | None:
        """Request the unknown text of an open document."""
        changes = document.changes
        text = await self._ask(spelling)
        if text is not None:
            self._documents.learn(spelling, document, changes, text)
        elif not document.is_saved:
            raise LookupError(spelling)
        return text

    async def write(self, path: str, text: str) -> None:
        """Let the client write a file. Raises OSError if it does not."""
        spelling = self._spelling(path)
        params = v1.client.write_file_params(self._session_id, spelling, text)
        try:
            await self._peer.request(WRITE, params, v1.client.check_written, WRITE_SECONDS)
        except (RemoteError, InvalidResultError, ConnectionClosedError) as error:
            raise OSError(errno.EIO, f"the editor did not write the file: {error}", path) from None
        except TimeoutError:
            message = "the editor did not confirm that it wrote the file; read it again"
            raise OSError(errno.ETIMEDOUT, message, path) from None
        finally:
            self._note_moved(spelling)
        self._documents.wrote(spelling, text)

    async def _ask(self, spelling: str) -> str | None:
        if not self._reads:
            return None
        if self.redactor.holds(spelling) and not await anyio.to_thread.run_sync(os.path.lexists, spelling):
            return None
        if self._is_silent:
            raise TimeoutError
        try:
            params = v1.client.read_file_params(self._session_id, spelling)
            return await self._peer.request(READ, params, v1.client.file_text, READ_SECONDS)
        except TimeoutError:
            self._is_silent = True
            raise
        except RemoteError as error:
            # A file that the client does not know or does not share is used from the disk.
            self._reads = error.code != Code.METHOD_NOT_FOUND
            return None
        except (InvalidResultError, ConnectionClosedError):
            return None
