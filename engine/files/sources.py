"""Protocols for reading files: on disk, and as the user's editor has them.

Implemented by the worker, the host and adapters; used by nodes and tools.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct


class FileStamp(Struct, frozen=True):
    """The facts that decide whether to read a file again.

    Equal stamps mean equal content.
    """

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


class OpenFile(Protocol):
    """A regular file open for reading; replacing its path does not affect it.

    Errors are OSError.
    """

    def stamp(self) -> FileStamp:
        """Return the file's current stamp."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on; fewer only at the end of the file."""
        ...


class Files(Protocol):
    """Reading for nodes. Errors are OSError, as from the operating system."""

    def stamp(self, path: str) -> FileStamp: ...

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a regular file.

        Raises OSError for anything else, IsADirectoryError for directories.
        """
        ...

    def opened(self, path: str) -> AbstractContextManager[OpenFile]:
        """Open a file to read parts of it. Raises like `read`."""
        ...

    def entries(self, path: str, limit: int) -> list[str]:
        """Return at most `limit` names in a directory, in any order; those of directories end in a slash."""
        ...


class Buffers(Protocol):
    """The editor's texts of files, saved or not, for the views of one session."""

    @property
    def offers(self) -> bool:
        """Whether an editor offers texts; if not, no other method is called."""
        ...

    async def take_moved(self) -> Collection[str] | None:
        """Return the absolute paths whose texts may have changed since the last call; None for all.

        The first call returns None. A cancelled call takes nothing.
        """
        ...

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """Return the editor's texts of the files at these absolute paths, within seconds; None if it has no text.

        A path is missing if the editor did not say. Raises nothing.
        """
        ...


class Editor(Protocol):
    """The files of a session as a user's editor offers them, from a client of the session.

    A text has no byte order mark, and any line ends.
    """

    @property
    def offers(self) -> bool:
        """Whether `read` has texts."""
        ...

    @property
    def writes(self) -> bool:
        """Whether `write` works."""
        ...

    @property
    def opened(self) -> Collection[str]:
        """The absolute paths of open documents, as the editor spells them, links included."""
        ...

    def take_moved(self) -> Collection[str] | None:
        """Return the paths whose texts may have changed since the last call; None for all.

        They are spelled as in `opened` or as given to `read`.
        """
        ...

    def saved_since(self, moment: int) -> Collection[str]:
        """Return the paths of files that the user has saved since, as in `opened`; `moment` is in ns since the epoch.

        Nothing if the editor does not tell.
        """
        ...

    async def read(self, path: str) -> str | None:
        """Return the editor's text of a file, saved or not; None without one.

        Raises:
            TimeoutError: the editor did not answer in time.
            LookupError: the file is open in the editor, but its text is unavailable.
        """
        ...

    async def write(self, path: str, text: str) -> None:
        """Write a text to the file and to the editor's buffer.

        Raises OSError on failure.
        """
        ...


class Trees(Protocol):
    """Listing the files of globs, for groups. Errors are OSError."""

    def listing(self, root: str, pattern: str) -> str:
        """Return a manifest (see `files.manifest`).

        The same object as before if nothing changed.

        It omits ignored files, links and everything but regular files, and has at most 100,000 files.

        Args:
            root: an absolute directory of the workspace.
            pattern: as for `find`, from there.
        """
        ...
