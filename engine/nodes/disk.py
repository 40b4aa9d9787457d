"""What files hold now: stamps decide what is read again, and each failure of reading becomes a revision that says so.

Knows the Files port. Must not know documents, nor what is recorded. Used by the sources of looks, `live` and
`recorded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ports import Files, FileStamp, Trees
from ..text import printable
from .found import Found
from .manifest import ManifestRevision, is_glob, place_of
from .revision import LARGEST, MOST_ENTRIES, Revision, decoded, digest_of, listing, without_content

_RACY_SECONDS: Final = 0.05
"""A file this young may change again without a new time stamp, because kernels stamp in ticks of up to 10 ms."""


class Disk:
    """Files, as `files` reads them; `now` is in seconds since the epoch."""

    __slots__ = ("_files", "_now", "_trees")

    def __init__(self, files: Files, trees: Trees, now: Callable[[], float]) -> None:
        self._files = files
        self._trees = trees
        self._now = now

    def look(self, path: str, title: str, last: Found | None) -> Found:
        """What the file holds now; `last` itself where nothing has changed. Never raises OSError."""
        try:
            if is_glob(path):
                return self._listed(path, last)
            stamp = self._files.stamp(path)
            if last is not None and _same(stamp, last.stamp):
                return last
            return self._read(path, title, stamp, last)
        except IsADirectoryError:
            return self._listing(path, title, last)
        except OSError as error:
            return _unless_same(_failure(error, title), None, last)

    def content(self, path: str, digest: str) -> bytes | None:
        """The content of that digest, if the file holds it now."""
        try:
            data = self._bytes(path)
        except (OSError, ValueError):
            return None
        return data if digest_of(data) == digest else None

    def _bytes(self, path: str) -> bytes:
        if is_glob(path):
            return self._trees.listing(*place_of(path)).encode()
        try:
            return self._files.read(path, LARGEST + 1)
        except IsADirectoryError:
            return self._names(path)

    def _listing(self, path: str, title: str, last: Found | None) -> Found:
        """A directory, whose names are its content."""
        try:
            stamp = self._files.stamp(path)
            data = self._names(path)
        except OSError as error:
            return _unless_same(_failure(error, title), None, last)
        kept = None if self._is_racy(stamp) else stamp
        if last is not None and last.revision.digest and digest_of(data) == last.revision.digest:
            return Found(last.revision, kept, last.recorded, data)
        return Found(listing(data), kept, data=data)

    def _names(self, path: str) -> bytes:
        """The names in a directory, one on each line, in order."""
        names = sorted(map(printable, self._files.entries(path, MOST_ENTRIES)))
        return "".join(f"{name}\n" for name in names).encode()

    def _is_racy(self, stamp: FileStamp) -> bool:
        return abs(self._now() - stamp.mtime_ns / 1e9) < _RACY_SECONDS

    def _listed(self, path: str, last: Found | None) -> Found:
        text = self._trees.listing(*place_of(path))
        known = None if last is None else last.revision
        if isinstance(known, ManifestRevision) and known.text is text:
            return last or Found(known)
        data = text.encode()
        revision = ManifestRevision(state="text", digest=digest_of(data), size=len(data), text=text)
        if last is not None and revision.same_as(last.revision):
            return Found(last.revision, None, last.recorded, data)
        return Found(revision, data=data)

    def _read(self, path: str, title: str, stamp: FileStamp, last: Found | None) -> Found:
        # A racy stamp is not kept, so that the next look reads again and the digest decides.
        kept = None if self._is_racy(stamp) else stamp
        if stamp.size > LARGEST:
            return _unless_same(_too_large(title, f"{stamp.size:,}", stamp.size), kept, last)
        data = self._files.read(path, LARGEST + 1)
        if last is not None and last.revision.digest and digest_of(data) == last.revision.digest:
            return Found(last.revision, kept, last.recorded, data)
        if len(data) > LARGEST:
            return _unless_same(_too_large(title, f"more than {LARGEST:,}", len(data)), kept, last)
        return Found(decoded(data), kept, data=data)


def _unless_same(revision: Revision, stamp: FileStamp | None, last: Found | None) -> Found:
    """The revision, or the object that stands for the same already."""
    if last is None or not revision.same_as(last.revision):
        return Found(revision, stamp)
    return last if stamp is None is last.stamp else Found(last.revision, stamp, last.recorded)


def _same(stamp: FileStamp, known: FileStamp | None) -> bool:
    # By field, because `==` of dataclasses costs a third of the stat call, for each of a thousand views at each tick.
    return (
        known is not None
        and stamp.mtime_ns == known.mtime_ns
        and stamp.ctime_ns == known.ctime_ns
        and stamp.size == known.size
        and stamp.inode == known.inode
    )


def _too_large(title: str, amount: str, size: int) -> Revision:
    notice = (
        f"({title} has {amount} bytes; views read files up to {LARGEST:,}. "
        "Read a part of it with open() and show that with view(text=...))"
    )
    return without_content("too large", notice, size)


def _failure(error: OSError, title: str) -> Revision:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return without_content("missing", f"(no file {title}; create it and Refresh(), or view another path)")
        case _:
            reason = error.strerror or type(error).__name__
            return without_content("unreadable", f"({title} cannot be read: {reason}; Refresh() tries again)")
