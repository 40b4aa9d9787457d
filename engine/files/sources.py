"""Files as nodes and tools see them: on disk, and as the user's editor holds them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct


class FileStamp(Struct, frozen=True):
    """What decides whether a file has to be read again; equal stamps mean equal content."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


class OpenFile(Protocol):
    """A regular file that is open for reading, whatever is put in its place meanwhile. Errors are OSError."""

    def stamp(self) -> FileStamp:
        """As the file is now."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; fewer only at the end of the file."""
        ...


class Files(Protocol):
    """Reading for nodes. Errors are OSError, as from the operating system."""

    def stamp(self, path: str) -> FileStamp: ...

    def read(self, path: str, limit: int) -> bytes:
        """The first `limit` bytes of a regular file. Raises OSError for anything else, IsADirectoryError for those."""
        ...

    def opened(self, path: str) -> AbstractContextManager[OpenFile]:
        """The file, to be read in parts. Raises as `read`."""
        ...

    def entries(self, path: str, limit: int) -> list[str]:
        """The names in a directory, in any order, those of directories with a slash; at most `limit` of them."""
        ...


class Buffers(Protocol):
    """What the user's editor holds of files, saved or not, for the views of one session."""

    @property
    def offers(self) -> bool:
        """Whether there is an editor that says anything; where there is none, nothing else is called."""
        ...

    async def take_moved(self) -> Collection[str] | None:
        """The absolute paths of which the texts may be others since the last call; None for all, as at the first.

        Where it is cancelled, nothing was taken.
        """
        ...

    async def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """What it holds of the files at these absolute paths, within seconds; None where it has no text of one.

        A path of which that is not to be learned is missing. Raises nothing.
        """
        ...


class Editor(Protocol):
    """The files of one session as a user's editor offers them; who is attached to a session may have one.

    A text has no byte order mark, and ends its lines as the editor likes.
    """

    @property
    def offers(self) -> bool:
        """Whether `read` has anything to say."""
        ...

    @property
    def writes(self) -> bool:
        """Whether `write` can be asked for."""
        ...

    @property
    def opened(self) -> Collection[str]:
        """The absolute paths of the documents that it says it has open, as it spells them, links in them included."""
        ...

    def take_moved(self) -> Collection[str] | None:
        """The paths that may have another text since the last call, as in `opened` and as `read` was asked for them.

        None for all.
        """
        ...

    async def read(self, path: str) -> str | None:
        """The text that it holds of the file at an absolute path, unsaved or not; None where it has none, or says none.

        Raises:
            TimeoutError: it has not answered in time.
            LookupError: it has the file open, and what it holds of it is not to be learned.
        """
        ...

    async def write(self, path: str, text: str) -> None:
        """Has it put that text into the file, and into what it holds of it. Raises OSError where it does not."""
        ...


class Trees(Protocol):
    """Listing the files that a glob matches, for groups. Errors are OSError."""

    def listing(self, root: str, pattern: str) -> str:
        """The manifest, as `files.manifest` has it; the same object as the last time where nothing has changed.

        Files that ignore files leave out are not in it, links and what is no regular file neither; at most 100,000.

        Args:
            root: an absolute directory of the workspace.
            pattern: as `find` takes it, from there.
        """
        ...
