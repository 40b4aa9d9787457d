"""Documents: what views are windows on. One per path, shared by all its views, read again when its stamp changed.

Owns the current revision of a path and how failures of reading become revisions. Knows the Files port, no node.
Called by handles when content is wanted, and at ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from ..ports import Files, FileStamp
from .revision import LARGEST, Revision, decoded, digest_of, from_text, without_content

_RACY_SECONDS: Final = 0.05
"""A file this young may change again without a new time stamp, because kernels stamp in ticks of up to 10 ms."""


class Document:
    """The content at one path, or a fixed text where `path` is None.

    With both, it is that text until somebody looks at the file: what an editor holds, which may be on no disk yet.
    `current` is the newest revision seen; `outside` says that the path is in no directory of the workspace.
    """

    __slots__ = ("__weakref__", "_checked", "_files", "_now", "_stamp", "current", "outside", "path", "title")

    def __init__(
        self,
        path: str | None,
        title: str,
        files: Files,
        now: Callable[[], float],
        *,
        text: str | None = None,
        first_line: int = 1,
        outside: bool = False,
    ) -> None:
        self.path = path
        self.title = title
        self.outside = outside
        self._files = files
        self._now = now
        self._stamp: FileStamp | None = None
        self._checked = -1
        self.current: Revision = without_content("missing", "") if text is None else from_text(text, first_line)
        if text is None:
            self.refresh()

    def refresh(self) -> Revision:
        """Looks at the file now, reads it if it has changed, and returns what is current. Never raises OSError."""
        if self.path is None:
            return self.current
        try:
            stamp = self._files.stamp(self.path)
            if not _same(stamp, self._stamp):
                self._read(self.path, stamp)
        except OSError as error:
            self._take(None, _failure(error, self.title))
        return self.current

    def refresh_for(self, round_id: int) -> Revision:
        """`refresh`, but at most once per Round, so that many views of a document cost one look at a tick."""
        if self._checked == round_id:
            return self.current
        self._checked = round_id
        return self.refresh()

    def _read(self, path: str, stamp: FileStamp) -> None:
        # A racy stamp is not kept, so that the next look reads again and the digest decides.
        racy = abs(self._now() - stamp.mtime_ns / 1e9) < _RACY_SECONDS
        kept = None if racy else stamp
        if stamp.size > LARGEST:
            self._take(kept, _too_large(self.title, f"{stamp.size:,}", stamp.size))
            return
        data = self._files.read(path, LARGEST + 1)
        if self.current.digest and digest_of(data) == self.current.digest:
            self._stamp = kept
        else:
            whole = len(data) <= LARGEST
            self._take(kept, decoded(data) if whole else _too_large(self.title, f"more than {LARGEST:,}", len(data)))

    def _take(self, stamp: FileStamp | None, revision: Revision) -> None:
        self._stamp = stamp
        if not revision.same_as(self.current):
            self.current = revision


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
        case IsADirectoryError():
            return without_content("directory", f"({title} is a directory; view a file in it)")
        case _:
            reason = error.strerror or type(error).__name__
            return without_content("unreadable", f"({title} cannot be read: {reason}; Refresh() tries again)")


class Documents:
    """All documents that some handle holds, by absolute path. A document is dropped with its last handle."""

    __slots__ = ("_by_path", "_files", "_now")

    def __init__(self, files: Files, now: Callable[[], float]) -> None:
        self._files = files
        self._now = now
        self._by_path: WeakValueDictionary[str, Document] = WeakValueDictionary()

    def at(self, path: str, title: str, *, outside: bool) -> Document:
        """The document at an absolute path, looked at just now."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = Document(path, title, self._files, self._now, outside=outside)
        else:
            known.refresh()
        return known

    def of_text(
        self, text: str, title: str, path: str | None = None, *, first_line: int = 1, outside: bool = False
    ) -> Document:
        """A document that is this text: for good, or where it has a path until the file there is looked at.

        Not shared with other views of that path, which show what is on disk. `first_line` is the number of its first
        line, where it is a part of the file.
        """
        return Document(path, title, self._files, self._now, text=text, first_line=first_line, outside=outside)
