"""The source of looks of live steps: the disk behind the editor's buffers, with a record of what they showed.

Owns the events of the revisions that were adopted, and which contents the host has been sent. Must not know who asks.
Made by the Board.

The contents of a step travel when the step has ended, so they are in memory until then, besides what the documents
hold. STEP_CONTENT_BYTES bounds them: what is more is not sent, so its event stays without a content, and a rebuild has
it only while the file still holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from msgspec.structs import asdict
from msgspec.structs import replace as with_fields

from ..core.execution import LOOKED
from ..core.text import plural
from ..log.events.nodes import AdoptedContent, ContentsAdopted, RevisionAdopted, RevisionState
from ..log.statements import STEP_CONTENT_BYTES
from .buffers import Buffers
from .disk import Disk
from .paging import PagedLines, PageLostError, PageRevision, ReadPage, is_page, page_revision, paged_revision, unpacked
from .revision import Found, LookSource, Revision, binary_as_seen, decoded, listing, recorded_path, without_content


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
        self._adopted = [with_fields(adopted, look=0) for adopted in self._adopted]
        self._of_globs = [with_fields(adopted, look=0) for adopted in self._of_globs]

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


# recorded:
# The source of looks of a replay: what the log says that the same looks found, never what is on disk now.
#
# Owns the record, as the host sends it step by step with the contents, and a phrase on each look that it does not
# answer. Must not know the log, nor how messages travel. Made and filled by `looks`.
#
# A look is answered by the recorded one of the same path and number. Where there is none, the look had brought what
# its document had already: the newest revision recorded for the path until then. Two go to the disk all the same:
# those of a step of which the log says nothing, because an earlier version wrote it; and one at a content that was
# not kept, where the file still holds exactly that.

_KEPT_PHRASES: Final = 5
"""Of the looks of one step so many are told in words, and the rest as a number."""
_NOTHING: Final = "is not recorded"
_FORGOTTEN: Final = "was too long ago to be held"
_HELD_BYTES: Final = 256 << 20
"""Contents that are held ready, at most: several times what one step needs."""


class SeenRevision(Protocol):
    """A revision as the log names it. `lost` says why the content cannot be had; empty where it can, or has none."""

    @property
    def state(self) -> RevisionState: ...
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def notice(self) -> str: ...
    @property
    def lost(self) -> str: ...


class RecordedLook(SeenRevision, Protocol):
    """One look on the log: the one number `look` at a path in its step."""

    @property
    def path(self) -> str: ...
    @property
    def look(self) -> int: ...


class RecordedLooks:
    """Answers looks from a record. `digests` are of the contents that the host has sent. `pages` reads large texts."""

    __slots__ = ("_contents", "_disk", "_lost", "_newest", "_pages", "_phrases", "_size", "_step", "_told", "digests")

    def __init__(self, disk: Disk, pages: ReadPage) -> None:
        self._disk = disk
        self._pages = pages
        self._contents: dict[str, bytes] = {}
        self._lost: dict[str, str] = {}
        self._size = 0
        self.digests: set[str] = set()
        self._newest: dict[str, RecordedLook] = {}
        self._step: dict[tuple[str, int], RecordedLook] | None = {}
        self._phrases: list[str] = []
        self._told: set[str] = set()

    def take_content(self, digest: str, data: bytes) -> None:
        """The content of a digest, before the first look that needs it.

        A long history has seen more than fits into memory, and its documents hold what they show by themselves. So the
        contents that came first are let go; a look that needs one of them again is as one whose content is lost.
        """
        if digest in self.digests:
            return
        self.digests.add(digest)
        self._contents[digest] = data
        self._size += len(data)
        while self._size > _HELD_BYTES:
            self._size -= len(self._contents.pop(next(iter(self._contents))))

    def know(self, looks: Iterable[RecordedLook]) -> None:
        """What was seen in steps that do not run again, in order."""
        for look in looks:
            self._newest[look.path] = look
            self._note_lost(look)

    def begin(self, looks: Sequence[RecordedLook] | None) -> None:
        """A step begins in which these looks brought a revision; None where the log does not say."""
        self.know((self._step or {}).values())
        self._step = None if looks is None else {(look.path, look.look): look for look in looks}
        for look in looks or ():
            self._note_lost(look)

    def _note_lost(self, look: RecordedLook) -> None:
        # What names the content by its digest alone, a state of a handle, does not know why it is lost.
        if look.lost:
            self._lost[look.digest] = look.lost

    @property
    def knows_step(self) -> bool:
        """Whether the log says what the step saw."""
        return self._step is not None

    def take_phrases(self) -> tuple[str, ...]:
        """A phrase on each look that was not answered since this was last called, at most a few and a number."""
        if not self._phrases:
            return ()
        phrases, self._phrases = self._phrases, []
        left = len(phrases) - _KEPT_PHRASES
        rest = [f"{LOOKED} {left:,} more {plural(left, 'file')} of which that is to be said"] if left > 0 else []
        return (*phrases[:_KEPT_PHRASES], *rest)

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
        """As `LookSource.look`."""
        if self._step is None:
            return self._unrecorded(path, title, last)
        key = recorded_path(path)
        seen = self._step.get((key, number)) or self._newest.get(key)
        if is_page(path):
            return self._page(path, title, seen)
        if seen is None:
            self._say(f"{LOOKED} {title}, of which nothing is recorded")
            return Found(_unknown(title, _NOTHING))
        self._newest[key] = seen
        if last is not None and _is(last.revision, seen):
            return last
        revision = self.revision(path, title, seen)
        return Found(revision, recorded=_is(revision, seen))

    def _page(self, path: str, title: str, seen: RecordedLook | None) -> Found:
        """A page is known by its name, so that the disk may answer where the record does not."""
        if seen is not None and not seen.digest:
            return Found(without_content(seen.state, seen.notice, seen.size), recorded=True)
        data = None if seen is None else self._contents.get(seen.digest)
        revision = None if data is None else page_revision(path, data)
        return self._disk.look(path, title, None) if revision is None else Found(revision, recorded=True)

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """As `LookSource.bring`: the record has it, as what a look of that step brought."""
        del data
        return self.look(path, title, last, number)

    def revision(self, path: str, title: str, seen: SeenRevision) -> Revision:
        """The revision that was seen; where its content cannot be had, one that says so."""
        if not seen.digest:
            return without_content(seen.state, seen.notice, seen.size)
        if seen.state == "binary":
            return binary_as_seen(seen.digest, seen.size, seen.notice)
        data = self._contents.get(seen.digest)
        if data is None:
            data = self._disk.content(path, seen.digest)
        revision = None if data is None else self._made(path, title, seen, data)
        if revision is not None:
            return revision
        lost = seen.lost or self._why(seen.digest)
        self._say(f"{LOOKED} {title}, whose content of then {lost}")
        return _unknown(title, lost)

    def _made(self, path: str, title: str, seen: SeenRevision, data: bytes) -> Revision | None:
        """The revision with that content; None where it cannot be made of it."""
        if seen.state == "directory":
            return listing(data)
        if seen.state != "paged":
            # With the notice of then, which says more than the content: that a text was not saved.
            return replace(decoded(data), notice=seen.notice)
        try:
            return paged_revision(seen.digest, seen.size, PagedLines(unpacked(data), path, title, self._pages))
        except ValueError:
            return None

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """The pages whose contents are at hand, by their paths, those that were seen last at the end."""
        for path, seen in self._newest.items():
            data = self._contents.get(seen.digest) if is_page(path) else None
            if data is not None and page_revision(path, data) is not None:
                yield path, data

    def _why(self, digest: str) -> str:
        return _FORGOTTEN if digest in self.digests else self._lost.get(digest, "is not kept")

    def _unrecorded(self, path: str, title: str, last: Found | None) -> Found:
        self._say(f"{LOOKED} {title}, and what it saw then is not recorded: it sees what is there now")
        found = self._disk.look(path, title, last)
        # Without a stamp, so that the first live look reads the file: what it finds is to be recorded.
        return replace(found, stamp=None, recorded=False, data=None)

    def _say(self, phrase: str) -> None:
        """Once for each path and reason, however often it is looked at."""
        if phrase not in self._told:
            self._told.add(phrase)
            self._phrases.append(phrase)


def _is(revision: Revision, seen: SeenRevision) -> bool:
    if seen.digest:
        return revision.digest == seen.digest and (seen.state != "text" or revision.notice == seen.notice)
    return (revision.state, revision.notice) == (seen.state, seen.notice)


def _unknown(title: str, lost: str) -> Revision:
    return without_content("unreadable", f"(what {title} held then {lost}; Refresh() takes what is there now)")


# looks:
# Looks: each time a document asks what its file holds now, numbered by path within a step (a statement, or a tick).
#
# Owns the numbers, and which source answers: the disk with a record of what it showed (`live`), or in a replay that
# record (`recorded`). What is recorded is an event for each look that brings another revision than the document had.
# A step that runs again gets the same revision for the look of the same path and number, so it sees what it saw. Must
# not know nodes. Made by the Board; asked by documents; `interpreter` says which steps run again.

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
