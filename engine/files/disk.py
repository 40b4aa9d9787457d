"""Files on disk: what is read again, and failures of reading as revisions that say so.

Owns the limits: up to which size a file is held in memory, up to which it is streamed once and then read by pages, and
above which it is not read. Knows `Files`. Must not know documents, nor what is recorded. Used by looks, and by the
preparation of payloads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..core.text import printable
from .manifest import ManifestRevision, is_glob, place_of
from .paging import PAGE, PagedLines, Read, ReadPage, Scanned, is_page, page_place, page_revision, paged_revision, scan
from .revision import (
    LARGEST,
    MOST_ENTRIES,
    Found,
    Hide,
    Revision,
    binary,
    decoded,
    digest_of,
    listing,
    without_content,
)
from .sources import Files, FileStamp, Trees

_RACY_SECONDS: Final = 0.05
"""A younger file may change again under the same time stamp, because kernels stamp in ticks of up to 10 ms."""


class Sizes(NamedTuple):
    """Limits in bytes: the largest file held in memory, the largest read by pages, and a page."""

    held: int = LARGEST
    paged: int = 1 << 30
    page: int = PAGE


class _TooSlowError(Exception):
    """The time for reading a file is up."""


class _Asked(NamedTuple):
    """The arguments of a look."""

    path: str
    title: str
    last: Found | None
    pages: ReadPage | None
    until: float | None


class Disk:
    """Files as `files` reads them, with secrets hidden; `now` is in seconds since the epoch."""

    __slots__ = ("_files", "_now", "_sizes", "_trees", "hide")

    def __init__(
        self,
        files: Files,
        trees: Trees,
        now: Callable[[], float],
        hide: Hide,
        sizes: Sizes = Sizes(),  # noqa: B008 - it is immutable
    ) -> None:
        self.hide: Final = hide
        self._files = files
        self._trees = trees
        self._now = now
        self._sizes = sizes

    def look(
        self, path: str, title: str, last: Found | None, pages: ReadPage | None = None, until: float | None = None
    ) -> Found:
        """Return the file's content; `last` itself if nothing changed.

        Never raises OSError.

        Args:
            path: absolute, or the path of a glob or a page.
            title: its name in messages.
            last: the earlier result, or None.
            pages: reads pages of a text that is too large for memory; without it such a text is not read.
            until: in seconds since the epoch, when to give up indexing such a text; None for never.
        """
        try:
            if is_page(path):
                return self._page(path, title)
            if is_glob(path):
                return self._listed(path, last)
            stamp = self._files.stamp(path)
            # A file that took too long for a tick is read by a look without a limit.
            is_settled = until is not None or last is None or last.revision.state != "unreadable"
            if last is not None and is_settled and _same(stamp, last.stamp):
                return last
            return self._read(_Asked(path, title, last, pages, until), stamp)
        except IsADirectoryError:
            return self._listing(path, title, last)
        except OSError as error:
            return _unless_same(_failure(error, title), None, last)

    def content(self, path: str, digest: str) -> bytes | None:
        """Return the content with this recorded digest, if the file has it now."""
        found = self.look(path, "", None, _no_page)
        return found.data if found.revision.digest == digest else None

    def _listing(self, path: str, title: str, last: Found | None) -> Found:
        """Read a directory; its content is the names."""
        try:
            stamp = self._files.stamp(path)
            data = self._names(path)
        except OSError as error:
            return _unless_same(_failure(error, title), None, last)
        kept = self._kept(stamp)
        if last is not None and last.revision.digest and digest_of(data) == last.revision.digest:
            return Found(last.revision, kept, last.recorded, data)
        return Found(listing(data), kept, data=data)

    def _names(self, path: str) -> bytes:
        """Return the names in a directory, sorted, one on each line."""
        names = sorted(map(printable, self._files.entries(path, MOST_ENTRIES)))
        return "".join(f"{name}\n" for name in names).encode()

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

    def _kept(self, stamp: FileStamp) -> FileStamp | None:
        """Return the stamp.

        Returns None for a racy one, so that the next look reads again and the digest decides.
        """
        return None if abs(self._now() - stamp.mtime_ns / 1e9) < _RACY_SECONDS else stamp

    def _read(self, asked: _Asked, stamp: FileStamp) -> Found:
        if stamp.size > self._sizes.held:
            return self._large(asked, stamp)
        kept, last = self._kept(stamp), asked.last
        data = self._files.read(asked.path, self._sizes.held + 1)
        if len(data) > self._sizes.held:
            return self._large(asked, self._files.stamp(asked.path))  # the file has grown
        if last is not None and last.revision.digest and digest_of(data) == last.revision.digest:
            return Found(last.revision, kept, last.recorded, data)
        return Found(decoded(data, self.hide), kept, data=data)

    # --- large files -------------------------------------------------------------------------------------------------

    def _large(self, asked: _Asked, stamp: FileStamp) -> Found:
        if asked.pages is None or stamp.size > self._sizes.paged:
            return _unless_same(self._too_large(asked.title, stamp.size), self._kept(stamp), asked.last)
        with self._files.opened(asked.path) as file:
            # The stamp of the open file, before it is read: a change during the read makes it stale.
            stamp = file.stamp()
            kept = self._kept(stamp)
            if stamp.size > self._sizes.paged:
                return _unless_same(self._too_large(asked.title, stamp.size), kept, asked.last)
            try:
                found = scan(self._timed(file.read, asked.until), stamp.size, self._sizes.page)
            except _TooSlowError:
                return _unless_same(_too_slow(asked.title), kept, asked.last)
        return self._found_in(found, asked, asked.pages, kept)

    def _found_in(self, scanned: Scanned, asked: _Asked, read: ReadPage, stamp: FileStamp | None) -> Found:
        """Make the result of streaming a file."""
        pages, digest, size, beginning = scanned
        last = asked.last
        if last is not None and digest == last.revision.digest:
            return Found(last.revision, stamp, last.recorded)
        if pages is None:
            return Found(binary(digest, size, beginning), stamp)
        if not pages.number:
            return Found(decoded(beginning, self.hide), stamp, data=beginning)  # the file was emptied meanwhile
        lines = PagedLines(pages, asked.path, asked.title, read, self.hide)
        return Found(paged_revision(digest, size, lines), stamp, data=pages.packed())

    def _timed(self, read: Read, until: float | None) -> Read:
        def reading(offset: int, size: int) -> bytes:
            if until is not None and self._now() > until:
                raise _TooSlowError
            return read(offset, size)

        return read if until is None else reading

    def _page(self, path: str, title: str) -> Found:
        """Read a page as it was indexed, or return why not."""
        try:
            place = page_place(path)
            with self._files.opened(place.path) as file:
                data = file.read(place.start, place.size)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return Found(_lost(title, reason))
        revision = page_revision(path, data)
        return Found(_lost(title, "the file has changed since")) if revision is None else Found(revision, data=data)

    def _too_large(self, title: str, size: int) -> Revision:
        if size <= self._sizes.paged:
            return without_content("too large", f"({title} has {size:,} bytes; view() shows a window on it)", size)
        notice = (
            f"({title} has {size:,} bytes; views read files up to {self._sizes.paged:,} bytes; read a "
            "part with open() and pass it to view(text=...))"
        )
        return without_content("too large", notice, size)


def _unless_same(revision: Revision, stamp: FileStamp | None, last: Found | None) -> Found:
    """Return the revision, or the earlier object if it is the same."""
    if last is None or not revision.same_as(last.revision):
        return Found(revision, stamp)
    return last if stamp is None is last.stamp else Found(last.revision, stamp, last.recorded)


def _same(stamp: FileStamp, known: FileStamp | None) -> bool:
    # By field, because `==` of Structs costs a third of the stat call, for a thousand views at each tick.
    return (
        known is not None
        and stamp.mtime_ns == known.mtime_ns
        and stamp.ctime_ns == known.ctime_ns
        and stamp.size == known.size
        and stamp.inode == known.inode
    )


def _no_page(path: str, title: str) -> bytes:
    raise NotImplementedError(path, title)  # because no line is read to find a content


def _lost(title: str, reason: str) -> Revision:
    return without_content(
        "unreadable", f"({title} cannot be read any more: {reason}; Refresh() shows the current content)"
    )


def _too_slow(title: str) -> Revision:
    return without_content(
        "unreadable", f"(reading {title} takes too long for an automatic update; Refresh() waits for it)"
    )


def _failure(error: OSError, title: str) -> Revision:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return without_content("missing", f"(no file {title}; create it and Refresh(), or view another path)")
        case _:
            reason = error.strerror or type(error).__name__
            return without_content("unreadable", f"({title} cannot be read: {reason}; Refresh() tries again)")
