"""What a look at a file finds, and what answers looks.

Plain values and one Protocol. Used by documents and by the sources of looks, `live` and `recorded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..core.text import valid_text
from .revision import Revision
from .sources_protocol import FileStamp


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found.

    `stamp` is None where the next look has to read the file again. `recorded` says that the log has the revision, as
    the newest of its path. `data` is the content where it has just been read.
    """

    revision: Revision
    stamp: FileStamp | None = None
    recorded: bool = False
    data: bytes | None = None


class LookSource(Protocol):
    """What answers looks."""

    def look(
        self,
        path: str,
        title: str,
        last: Found | None,
        number: int,
        *,
        of_glob: bool = False,
        until: float | None = None,
    ) -> Found:
        """What the file at an absolute path holds; `last` itself where nothing has changed. Never raises OSError.

        Args:
            path: absolute.
            title: how sentences name it.
            last: what the document's look before this one found; None before the first.
            number: of this look at the path within its step, from 0.
            of_glob: whether a glob looks, whose looks are recorded together.
            until: in seconds since the epoch, when reading a large file is given up; None for never.
        """
        ...

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """As `look`, where somebody else has read the file, and found `data`."""
        ...


def recorded_path(path: str) -> str:
    """The path as a log holds it: what is no valid text in it becomes U+FFFD."""
    return path if path.isascii() else valid_text(path)
