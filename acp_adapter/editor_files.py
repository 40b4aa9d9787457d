"""The files of one session as the editor holds them: implements the engine's `Editor` with what the client offers.

Owns whether the client is asked, and for how long: what it has said of a document by itself (`documents`) is never
asked for. Must not know what becomes of a text. Made by the connection for each conversation.

A client that says nothing of its documents cannot say either when a text is another. People type between two prompts,
so each prompt of theirs counts as such a moment for all files. One that has not answered in time is not waited for
again before the next prompt.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from typing import Final

import anyio
import anyio.to_thread

from acp_adapter.documents import Document, Documents
from acp_adapter.rpc.errors import Code, ConnectionClosedError, InvalidResultError, RemoteError
from acp_adapter.rpc.methods import Remote
from acp_adapter.wire.codec import Codec
from engine import Redactor

READ: Final = "fs/read_text_file"
WRITE: Final = "fs/write_text_file"
READ_SECONDS: Final = 2.0
WRITE_SECONDS: Final = 10.0


class EditorFiles:
    """`reads` and `writes` are what the client offers; `spelled` gives a path as it spells those of the session.

    A client is sent the exact path of a file. A path that is no file may be the content of one, so a path in which
    `redactor` finds a secret is sent only where there is such a file.
    """

    def __init__(
        self,
        session_id: str,
        documents: Documents,
        peer: Remote,
        codec: Codec,
        spelled: Callable[[str], str],
        *,
        redactor: Redactor,
        reads: bool,
        writes: bool,
    ) -> None:
        self._session_id = session_id
        self._documents = documents
        self._peer = peer
        self._codec = codec
        self._spelled = spelled
        self._redactor = redactor
        self._reads = reads
        self._writes = writes
        self._is_silent = False
        self._asked: dict[str, set[str]] = {}
        """By the client's spelling, the paths by which a text was asked for."""
        self._moved: set[str] | None = None
        """Paths as the client spells them; None for all."""
        self._was_announced = False
        self.close: Final = documents.follow(self._note_moved)
        """Ends what this needs of the documents; not to be repeated."""

    def _note_moved(self, path: str) -> None:
        if self._documents.announces and not self._was_announced:
            self._was_announced, self._moved = True, None
        if self._moved is not None:
            self._moved.add(path)

    def user_acted(self) -> None:
        """The user has sent a prompt."""
        self._is_silent = False
        if not self._documents.announces:
            self._moved = None

    # --- for the engine -----------------------------------------------------------------------------------------------

    @property
    def offers(self) -> bool:
        """Whether there is anything to learn from this client."""
        return self._reads or self._documents.announces

    @property
    def writes(self) -> bool:
        return self._writes

    @property
    def opened(self) -> Collection[str]:
        """The documents that the client says it has open."""
        return self._documents.paths

    def take_moved(self) -> Collection[str] | None:
        """The paths that may have another text by now, as the client spells them and as asked for; None for all."""
        moved, self._moved = self._moved, set()
        if moved is None:
            return None
        return {path for spelling in moved for path in (spelling, *self._asked.get(spelling, ()))}

    async def read(self, path: str) -> str | None:
        """The text that the client has; None where it has none, or says none.

        Raises:
            TimeoutError: it has not answered in time.
            LookupError: it says that the file is open, and nobody says with which text.
        """
        spelling = self._spelling(path)
        self._asked.setdefault(spelling, set()).add(path)
        document = self._documents.find(spelling)
        if document is None:
            return None if self._documents.announces else await self._ask(spelling)
        return document.text if document.text is not None else await self._learned(spelling, document)

    def _spelling(self, path: str) -> str:
        """As the client has the document open, or else as it spells the paths of the session."""
        return path if self._documents.find(path) is not None else self._spelled(path)

    async def _learned(self, spelling: str, document: Document) -> str | None:
        """The text of an open document of which none is known."""
        changes = document.changes
        text = await self._ask(spelling)
        if text is not None:
            self._documents.learn(spelling, document, changes, text)
        elif not document.is_saved:
            raise LookupError(spelling)
        return text

    async def write(self, path: str, text: str) -> None:
        """Raises OSError where the client does not."""
        spelling = self._spelling(path)
        files = self._codec.files
        params = files.write_writing(self._session_id, spelling, text)
        try:
            await self._peer.request(WRITE, params, files.read_written, WRITE_SECONDS)
        except (RemoteError, InvalidResultError, ConnectionClosedError) as error:
            raise OSError(errno.EIO, f"the editor did not write the file: {error}", path) from None
        except TimeoutError:
            message = "the editor has not said whether it wrote the file; look at it again"
            raise OSError(errno.ETIMEDOUT, message, path) from None
        finally:
            self._note_moved(spelling)
        self._documents.wrote(spelling, text)

    async def _ask(self, spelling: str) -> str | None:
        if not self._reads:
            return None
        if self._redactor.holds(spelling) and not await anyio.to_thread.run_sync(os.path.lexists, spelling):
            return None
        if self._is_silent:
            raise TimeoutError
        files = self._codec.files
        try:
            params = files.write_reading(self._session_id, spelling)
            return await self._peer.request(READ, params, files.read_text, READ_SECONDS)
        except TimeoutError:
            self._is_silent = True
            raise
        except RemoteError as error:
            # A file that it does not know, or does not give away, is as it is on disk.
            self._reads = error.code != Code.METHOD_NOT_FOUND
            return None
        except (InvalidResultError, ConnectionClosedError):
            return None
