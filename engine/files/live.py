"""The source of looks of live steps: the disk behind the editor's buffers, with a record of what they showed.

Owns the events of the revisions that were adopted, and which contents the host has been sent. Must not know who asks.
Made by the Board.

The contents of a step travel when the step has ended, so they are in memory until then, besides what the documents
hold. STEP_CONTENT_BYTES bounds them: what is more is not sent, so its event stays without a content, and a rebuild has
it only while the file still holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import asdict, replace

from ..log.events.nodes import AdoptedContent, ContentsAdopted, RevisionAdopted
from ..log.ticks_values import STEP_CONTENT_BYTES
from .buffers import Buffers
from .disk import Disk
from .found import Found, recorded_path
from .paged_lines import ReadPage
from .revision import decoded


class LiveLooks:
    """Looks at `disk` through `buffers`, and records each revision that is another than the document had.

    `pages` reads large texts. Globs are about what is on disk, and look there.
    """

    __slots__ = ("_adopted", "_buffers", "_contents", "_disk", "_of_globs", "_pages", "_sent", "_size")

    def __init__(self, disk: Disk, buffers: Buffers, pages: ReadPage) -> None:
        self._disk = disk
        self._buffers = buffers
        self._pages = pages
        self._adopted: list[RevisionAdopted] = []
        self._of_globs: list[AdoptedContent] = []
        self._contents: dict[str, bytes] = {}
        self._size = 0
        self._sent: set[str] = set()

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
        """As `LookSource.look`. A glob reads no large text: its files are shown in a few lines each."""

        def on_disk(last: Found | None) -> Found:
            return self._disk.look(path, title, last, None if of_glob else self._pages, until)

        found = on_disk(last) if of_glob else self._buffers.look(path, last, on_disk)
        if found is last and found.recorded:
            return found
        if last is None or not last.recorded or found.revision is not last.revision:
            self._record(path, number, found, of_glob=of_glob)
        return Found(found.revision, found.stamp, recorded=True)

    def peek(self, path: str, title: str, last: Found | None) -> Found:
        """What `look` would find, without a record of it, and without asking an editor."""
        return self._buffers.unsaved(path) or self._disk.look(path, title, last)

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """As `LookSource.bring`. No stamp goes with it, so the next look of its own reads the file."""
        if self._buffers.unsaved(path) is not None:
            return self.look(path, title, last, number)
        revision = decoded(data)
        if last is not None and last.recorded and revision.same_as(last.revision):
            return last
        self._sent.add(revision.digest)
        found = Found(revision, recorded=True)
        self._record(path, number, found, of_glob=False)
        return found

    def begin(self) -> None:
        """A step begins. Looks that a thread made since the last one count as made in it, ahead of all others."""
        self._adopted = [replace(adopted, look=0) for adopted in self._adopted]
        self._of_globs = [replace(adopted, look=0) for adopted in self._of_globs]

    def host_has(self, digests: Iterable[str]) -> None:
        """The contents of these digests need not be sent: they came from the host."""
        self._sent.update(digests)

    def take(self) -> tuple[RevisionAdopted | ContentsAdopted, ...]:
        """The record of the looks since the last time this was called, in order; those of globs in one event."""
        adopted, of_globs = tuple(self._adopted), tuple(self._of_globs)
        del self._adopted[: len(adopted)], self._of_globs[: len(of_globs)]
        return (*adopted, ContentsAdopted(files=of_globs)) if of_globs else adopted

    def take_contents(self) -> Mapping[str, bytes]:
        """What the host has not been sent of the revisions that `take` has told, by digest."""
        contents, self._contents, self._size = self._contents, {}, 0
        self._sent.update(contents)
        return contents

    def _record(self, path: str, number: int, found: Found, *, of_glob: bool) -> None:
        revision = found.revision
        self._keep(revision.digest, found.data)
        seen = AdoptedContent(
            path=recorded_path(path),
            look=number,
            state=revision.state,
            digest=revision.digest,
            size=revision.size,
            notice=revision.notice,
        )
        if of_glob:
            self._of_globs.append(seen)
        else:
            self._adopted.append(RevisionAdopted(**asdict(seen)))

    def _keep(self, digest: str, data: bytes | None) -> None:
        if data is None or not digest or digest in self._sent or digest in self._contents:
            return
        if self._size + len(data) <= STEP_CONTENT_BYTES:
            self._contents[digest] = data
            self._size += len(data)
