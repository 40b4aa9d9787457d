"""The source of looks of live steps: the disk, with a record of what it showed.

Owns the events of the revisions that were adopted, and which contents the host has been sent. Must not know who asks.
Made by the Board.

The contents of a step travel when the step has ended, so they are in memory until then, besides what the documents
hold. STEP_CONTENT_BYTES bounds them: what is more is not sent, so its event stays without a content, and a rebuild has
it only while the file still holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ..events.nodes import RevisionAdopted
from ..ports import STEP_CONTENT_BYTES
from .disk import Disk
from .found import Found, recorded_path


class LiveLooks:
    """Looks at `disk`, and records each revision that is another than the document had."""

    __slots__ = ("_adopted", "_contents", "_disk", "_sent", "_size")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._adopted: list[RevisionAdopted] = []
        self._contents: dict[str, bytes] = {}
        self._size = 0
        self._sent: set[str] = set()

    def look(self, path: str, title: str, last: Found | None, number: int) -> Found:
        """As `LookSource.look`."""
        found = self._disk.look(path, title, last)
        if found is last and found.recorded:
            return found
        if last is None or not last.recorded or found.revision is not last.revision:
            self._record(path, number, found)
        return Found(found.revision, found.stamp, recorded=True)

    def begin(self) -> None:
        """A step begins. Looks that a thread made since the last one count as made in it, ahead of all others."""
        self._adopted = [replace(adopted, look=0) for adopted in self._adopted]

    def host_has(self, digests: Iterable[str]) -> None:
        """The contents of these digests need not be sent: they came from the host."""
        self._sent.update(digests)

    def take(self) -> tuple[RevisionAdopted, ...]:
        """The record of the looks since the last time this was called, in order."""
        adopted = tuple(self._adopted)
        del self._adopted[: len(adopted)]
        return adopted

    def take_contents(self) -> Mapping[str, bytes]:
        """What the host has not been sent of the revisions that `take` has told, by digest."""
        contents, self._contents, self._size = self._contents, {}, 0
        self._sent.update(contents)
        return contents

    def _record(self, path: str, number: int, found: Found) -> None:
        revision = found.revision
        self._keep(revision.digest, found.data)
        self._adopted.append(
            RevisionAdopted(
                path=recorded_path(path),
                look=number,
                state=revision.state,
                digest=revision.digest,
                size=revision.size,
                notice=revision.notice,
            )
        )

    def _keep(self, digest: str, data: bytes | None) -> None:
        if data is None or not digest or digest in self._sent or digest in self._contents:
            return
        if self._size + len(data) <= STEP_CONTENT_BYTES:
            self._contents[digest] = data
            self._size += len(data)
