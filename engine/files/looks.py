"""Looks: each time a document asks what its file holds now, numbered by path within a step (a statement, or a tick).

Owns the numbers, and which source answers: the disk with a record of what it showed (`live`), or in a replay that
record (`recorded`). What is recorded is an event for each look that brings another revision than the document had. A
step that runs again gets the same revision for the look of the same path and number, so it sees what it saw. Must not
know nodes. Made by the Board; asked by documents; `interpreter` says which steps run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from ..log.events.nodes import ContentsAdopted, RevisionAdopted
from .buffers import Buffers
from .disk import Disk
from .found import Found, LookSource
from .live import LiveLooks
from .page import PageRevision
from .paged_lines import PageLostError
from .recorded import RecordedLook, RecordedLooks, SeenRevision
from .revision import Revision

_TICK_SECONDS: Final = 10.0
"""In one tick large files are read for so long. Who waits for it takes the worker for lost after three times that."""
_HELD_PAGES: Final = 64
"""Pages of large texts that are in memory, 4 MiB."""


class Looks:
    """The looks of one board's documents, one step after the other. `now` is in seconds since the epoch."""

    __slots__ = ("_buffers", "_disk", "_live", "_now", "_numbers", "_pages", "_recorded", "_source", "_until", "tick")

    def __init__(self, disk: Disk, buffers: Buffers, now: Callable[[], float]) -> None:
        self._disk = disk
        self._buffers = buffers
        self._now = now
        self._live = LiveLooks(disk, buffers, self.page)
        self._recorded = RecordedLooks(disk, self.page)
        self._source: LookSource = self._live
        self._pages: dict[str, bytes] = {}
        self._until = 0.0
        self._numbers: dict[str, int] = {}
        self.tick = 0
        """Counts the ticks."""

    def begin(self) -> None:
        """A step begins: the next look at each path has the number 0."""
        self._numbers.clear()
        self._live.begin()
        self._buffers.begin()

    def begin_tick(self, paths: Callable[[], Iterable[str]]) -> None:
        """A tick begins, as a step or within a statement: each document, those at `paths`, looks once more."""
        self.tick += 1
        self._until = self._now() + _TICK_SECONDS
        self._buffers.begin_tick()
        if self._source is self._live:
            self._buffers.expect(paths)

    def end_tick(self) -> None:
        """The tick has ended."""
        self._buffers.end_tick()

    def forget_buffers(self, paths: Collection[str] | None) -> None:
        """As `Buffers.forget`."""
        self._buffers.forget(paths)

    def look(self, path: str, title: str, last: Found | None, *, of_glob: bool = False, at_tick: bool = False) -> Found:
        """As `LookSource.look`, with the number that is due. What looks `at_tick` has the time of a tick."""
        number = self._numbers.get(path, 0)
        self._numbers[path] = number + 1
        until = self._until if at_tick else None
        return self._source.look(path, title, last, number, of_glob=of_glob, until=until)

    def page(self, path: str, title: str) -> bytes:
        """The page that `path` stands for, which sentences call `title`.

        Raises:
            PageLostError: it cannot be had.
        """
        data = self._pages.pop(path, None)
        if data is None:
            revision = self.look(path, title, None).revision
            if not isinstance(revision, PageRevision):
                raise PageLostError(revision.notice)
            data = revision.page
        self._hold(path, data)
        return data

    def _hold(self, path: str, data: bytes) -> None:
        # In one step each, because threads may look at a view, too.
        for old in list(self._pages)[: 1 - _HELD_PAGES]:
            self._pages.pop(old, None)
        self._pages[path] = data

    def peek(self, path: str, title: str, last: Found | None) -> Found:
        """What a live look would find, for whoever only wants to know. Not in a replay.

        It has no number, because nothing comes of it that a re-run would repeat. A large text is not read for it.
        """
        return self._live.peek(path, title, last)

    def bring(self, path: str, title: str, last: Found | None, data: bytes) -> Found:
        """A look that somebody else has made: the file at `path` held `data`, which the host has."""
        number = self._numbers.get(path, 0)
        self._numbers[path] = number + 1
        return self._source.bring(path, title, last, number, data)

    def take(self) -> tuple[RevisionAdopted | ContentsAdopted, ...]:
        """The record of the live looks since the last time this was called."""
        return self._live.take()

    def take_contents(self) -> Mapping[str, bytes]:
        """Contents of what `take` has told that the host has not been sent, by digest."""
        return self._live.take_contents()

    # --- a replay ----------------------------------------------------------------------------------------------------

    def take_content(self, digest: str, data: bytes) -> None:
        """A content of the record, ahead of the step that needs it."""
        self._recorded.take_content(digest, data)

    def know(self, looks: Iterable[RecordedLook]) -> None:
        """What was seen in steps that do not run again, in order."""
        self._recorded.know(looks)

    def replay(self, looks: Sequence[RecordedLook] | None) -> None:
        """The step that begins runs again, and saw these; None where the log does not say."""
        self._source = self._recorded
        self._recorded.begin(looks)

    @property
    def are_as_then(self) -> bool:
        """Whether the step sees what it saw when it ran first; False where the log, of an older version, says not."""
        return self._source is self._live or self._recorded.knows_step

    def known(self, path: str, title: str, seen: SeenRevision) -> Revision:
        """A revision of the record."""
        return self._recorded.revision(path, title, seen)

    def take_phrases(self) -> tuple[str, ...]:
        """A phrase on each look that the record did not answer, since the last time this was called."""
        return self._recorded.take_phrases()

    def settle(self) -> None:
        """The history has run again: looks are live from now on, and the record is let go."""
        self._live.host_has(self._recorded.digests)
        # What was seen is shown again, also where the file has changed since.
        for path, data in self._recorded.pages():
            self._pages.pop(path, None)
            self._hold(path, data)
        self._recorded = RecordedLooks(self._disk, self.page)
        self._source = self._live
