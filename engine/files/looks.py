"""Looks: each time a document reads its file, numbered by path within a step (a statement, or a tick).

Owns the numbers, and which source answers: `LiveLooks`, the disk behind the editor's buffers, which records results; or
in a replay `RecordedLooks`, that record. An event is recorded for each look that finds another revision than the
document had. A step that runs again gets the same revision for the look with the same path and number, so its inputs
are the same. Must not know nodes. Made by the Board; called by documents; the interpreter decides which steps run
again.

The contents of a step are sent when it has ended, so they are in memory until then, besides what documents hold.
STEP_CONTENT_BYTES limits them: beyond it an event has no content, and a rebuild needs the file to still have it.
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
from .revision import Found, Revision, binary_as_seen, decoded, from_text, listing, recorded_path, without_content

_TICK_SECONDS: Final = 10.0
"""Time for reading large files in one tick. The host considers the worker hung after three times that."""
_HELD_PAGES: Final = 64
"""Number of cached pages of large texts, 4 MiB."""


class LookSource(Protocol):
    """A source of looks."""

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
        """Return the file's revision at an absolute path.

        `last` itself if nothing changed. Never raises OSError.

        Args:
            path: absolute.
            title: its name in messages.
            last: the result of the document's last look; None before the first.
            number: of this look at the path within its step, from 0.
            of_glob: whether a glob looks; its looks are recorded together.
            until: in seconds since the epoch, when to give up reading a large file; None for never.
        """
        ...

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """Like `look`, for content `data` that another process has read."""
        ...


class Looks:
    """The looks of a board's documents, step by step.

    `now` is in seconds since the epoch.
    """

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
        """Begin a step: the next look at each path has the number 0."""
        self._numbers.clear()
        self._live.begin()
        self._buffers.begin()

    def begin_tick(self, paths: Callable[[], Iterable[str]]) -> None:
        """Begin a tick, as a step or within a statement: each document at `paths` looks once more."""
        self.tick += 1
        self._until = self._now() + _TICK_SECONDS
        self._buffers.begin_tick()
        if self._source is self._live:
            self._buffers.expect(paths)

    def end_tick(self) -> None:
        """End the tick."""
        self._buffers.end_tick()

    def forget_buffers(self, paths: Collection[str] | None) -> None:
        """See `Buffers.forget`."""
        self._buffers.forget(paths)

    def look(self, path: str, title: str, last: Found | None, *, of_glob: bool = False, at_tick: bool = False) -> Found:
        """Look with the next number; see `LookSource.look`.

        Looks `at_tick` share the time of the tick.
        """
        number = self._numbers.get(path, 0)
        self._numbers[path] = number + 1
        until = self._until if at_tick else None
        return self._source.look(path, title, last, number, of_glob=of_glob, until=until)

    def text(self, text: str, first_line: int = 1) -> Revision:
        """Return the revision of a text that is not a file's; see `revision.from_text`."""
        return from_text(text, self._disk.hide, first_line)

    def content(self, path: str, digest: str) -> bytes | None:
        """Return the content of a file with this digest, if it has that now. Not recorded as a look."""
        return self._disk.content(path, digest)

    def page(self, path: str, title: str) -> bytes:
        """Return the page of a path; messages call it `title`.

        Raises:
            PageLostError: the page is unavailable.
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
        # Atomic steps, because threads may read a view, too.
        for old in list(self._pages)[: 1 - _HELD_PAGES]:
            self._pages.pop(old, None)
        self._pages[path] = data

    def peek(self, path: str, title: str, last: Found | None) -> Found:
        """Return what a live look would find, without a number or a record. Not for replays.

        A large text is not read for this.
        """
        return self._live.peek(path, title, last)

    def bring(self, path: str, title: str, last: Found | None, data: bytes) -> Found:
        """Make a look of content that another process has read, and the host has."""
        number = self._numbers.get(path, 0)
        self._numbers[path] = number + 1
        return self._source.bring(path, title, last, number, data)

    def take(self) -> tuple[RevisionAdopted | ContentsAdopted, ...]:
        """Return the events of live looks since the last call."""
        return self._live.take()

    def take_contents(self) -> Mapping[str, bytes]:
        """Return unsent contents of the events of `take`, by digest."""
        return self._live.take_contents()

    # --- a replay ----------------------------------------------------------------------------------------------------

    def take_content(self, digest: str, data: bytes) -> None:
        """Add a content of the record before the step that needs it."""
        self._recorded.take_content(digest, data)

    def know(self, looks: Iterable[RecordedLook]) -> None:
        """Add the looks of steps that do not run again, in order."""
        self._recorded.know(looks)

    def replay(self, looks: Sequence[RecordedLook] | None) -> None:
        """Answer the looks of the step that begins from the record.

        Args:
            looks: the recorded looks of the step; None if the log does not have them.
        """
        self._source = self._recorded
        self._recorded.begin(looks)

    def known(self, path: str, title: str, seen: SeenRevision) -> Revision:
        """Return a recorded revision."""
        return self._recorded.revision(path, title, seen)

    def take_phrases(self) -> tuple[str, ...]:
        """Return phrases about looks that the record did not answer, since the last call."""
        return self._recorded.take_phrases()

    def settle(self) -> None:
        """End the replay: looks are live from now on, and the record is dropped."""
        self._live.host_has(self._recorded.digests)
        # Keep the recorded pages, so that views show them even if the file has changed.
        for path, data in self._recorded.pages():
            self._pages.pop(path, None)
            self._hold(path, data)
        self._recorded = RecordedLooks(self._disk, self.page)
        self._source = self._live


class LiveLooks:
    """Looks at `disk` through `buffers`, and records each new revision of a document.

    `pages` reads large texts. Globs look at the disk directly.
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
        """See `LookSource.look`.

        A glob reads no large text, because its files are shown in a few lines each.
        """

        def on_disk(last: Found | None) -> Found:
            return self._disk.look(path, title, last, None if of_glob else self._pages, until)

        found = on_disk(last) if of_glob else self._buffers.look(path, last, on_disk)
        if found is last and found.recorded:
            return found
        if last is None or not last.recorded or found.revision is not last.revision:
            self._record(path, number, found, of_glob=of_glob)
        return Found(found.revision, found.stamp, recorded=True)

    def peek(self, path: str, title: str, last: Found | None) -> Found:
        """Return what `look` would, without a record, and without a question to the editor."""
        return self._buffers.unsaved(path) or self._disk.look(path, title, last)

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """See `LookSource.bring`.

        The result has no stamp, so the next look reads the file.
        """
        if self._buffers.unsaved(path) is not None:
            return self.look(path, title, last, number)
        revision = decoded(data, self._disk.hide)
        if last is not None and last.recorded and revision.same_as(last.revision):
            return last
        self._sent.add(revision.digest)
        found = Found(revision, recorded=True)
        self._record(path, number, found, of_glob=False)
        return found

    def begin(self) -> None:
        """Begin a step.

        Looks by threads since the last step count as its first looks.
        """
        self._adopted = [with_fields(adopted, look=0) for adopted in self._adopted]
        self._of_globs = [with_fields(adopted, look=0) for adopted in self._of_globs]

    def host_has(self, digests: Iterable[str]) -> None:
        """Do not send the contents of these digests: they came from the host."""
        self._sent.update(digests)

    def take(self) -> tuple[RevisionAdopted | ContentsAdopted, ...]:
        """Return the events since the last call, in order.

        Looks of globs are one event.
        """
        adopted, of_globs = tuple(self._adopted), tuple(self._of_globs)
        del self._adopted[: len(adopted)], self._of_globs[: len(of_globs)]
        return (*adopted, ContentsAdopted(files=of_globs)) if of_globs else adopted

    def take_contents(self) -> Mapping[str, bytes]:
        """Return unsent contents of the revisions that `take` returned, by digest."""
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


# --- recorded looks --------------------------------------------------------------------------------------------------


_KEPT_PHRASES: Final = 5
"""Number of unanswered looks of a step that are described; the rest is counted."""
_NOTHING: Final = "is not recorded"
_FORGOTTEN: Final = "is no longer stored, because it is too old"
_HELD_BYTES: Final = 256 << 20
"""Largest size of cached contents: several times the need of a step."""


class SeenRevision(Protocol):
    """A revision as the log names it.

    `lost` tells why its content is unavailable, or is empty.
    """

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
    """One look on the log: number `look` at a path in its step."""

    @property
    def path(self) -> str: ...
    @property
    def look(self) -> int: ...


class RecordedLooks:
    """Answers looks from a record.

    `digests` are the contents from the host. `pages` reads large texts.

    A look is answered by the recorded one with the same path and number. If there is none, the look had found no
    change, so the answer is the newest recorded revision of the path. Two kinds of looks go to the disk all the same:
    those of a step that the log says nothing about, because an earlier version wrote it; and those whose content was
    not kept, if the file still has exactly that content.
    """

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
        """Add a content before the first look that needs it.

        A long history has more contents than fit into memory, and documents hold what they show. So the oldest contents
        are dropped; if a look needs one again, it counts as lost.
        """
        if digest in self.digests:
            return
        self.digests.add(digest)
        self._contents[digest] = data
        self._size += len(data)
        while self._size > _HELD_BYTES:
            self._size -= len(self._contents.pop(next(iter(self._contents))))

    def know(self, looks: Iterable[RecordedLook]) -> None:
        """Add the looks of steps that do not run again, in order."""
        for look in looks:
            self._newest[look.path] = look
            self._note_lost(look)

    def begin(self, looks: Sequence[RecordedLook] | None) -> None:
        """Begin a step with these recorded looks; None if the log does not say."""
        self.know((self._step or {}).values())
        self._step = None if looks is None else {(look.path, look.look): look for look in looks}
        for look in looks or ():
            self._note_lost(look)

    def _note_lost(self, look: RecordedLook) -> None:
        # A handle's state has only the digest, so the reason is kept here.
        if look.lost:
            self._lost[look.digest] = look.lost

    def take_phrases(self) -> tuple[str, ...]:
        """Return phrases about unanswered looks since the last call: a few, and a count."""
        if not self._phrases:
            return ()
        phrases, self._phrases = self._phrases, []
        left = len(phrases) - _KEPT_PHRASES
        rest = [f"{LOOKED} {left:,} more {plural(left, 'file')} with no recorded content"] if left > 0 else []
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
        """See `LookSource.look`."""
        if self._step is None:
            return self._unrecorded(path, title, last)
        key = recorded_path(path)
        seen = self._step.get((key, number)) or self._newest.get(key)
        if is_page(path):
            return self._page(path, title, seen)
        if seen is None:
            self._say(f"{LOOKED} {title}, but nothing of it is recorded")
            return Found(_unknown(title, _NOTHING))
        self._newest[key] = seen
        if last is not None and _is(last.revision, seen):
            return last
        revision = self.revision(path, title, seen)
        return Found(revision, recorded=_is(revision, seen))

    def _page(self, path: str, title: str, seen: RecordedLook | None) -> Found:
        """A page has its digest in its path, so the disk may answer if the record does not."""
        if seen is not None and not seen.digest:
            return Found(without_content(seen.state, seen.notice, seen.size), recorded=True)
        data = None if seen is None else self._contents.get(seen.digest)
        revision = None if data is None else page_revision(path, data)
        return self._disk.look(path, title, None) if revision is None else Found(revision, recorded=True)

    def bring(self, path: str, title: str, last: Found | None, number: int, data: bytes) -> Found:
        """See `LookSource.bring`: the record has it as a look of that step."""
        del data
        return self.look(path, title, last, number)

    def revision(self, path: str, title: str, seen: SeenRevision) -> Revision:
        """Return the recorded revision; if its content is lost, one that says so."""
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
        self._say(f"{LOOKED} {title}, but its earlier content {lost}")
        return _unknown(title, lost)

    def _made(self, path: str, title: str, seen: SeenRevision, data: bytes) -> Revision | None:
        """Make the revision of that content; None if the content does not fit."""
        if seen.state == "directory":
            return listing(data)
        if seen.state != "paged":
            # With the recorded notice, which may say that a text was unsaved.
            return replace(decoded(data, self._disk.hide), notice=seen.notice)
        try:
            lines = PagedLines(unpacked(data), path, title, self._pages, self._disk.hide)
            return paged_revision(seen.digest, seen.size, lines)
        except ValueError:
            return None

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yield the cached pages by path, last seen last."""
        for path, seen in self._newest.items():
            data = self._contents.get(seen.digest) if is_page(path) else None
            if data is not None and page_revision(path, data) is not None:
                yield path, data

    def _why(self, digest: str) -> str:
        return _FORGOTTEN if digest in self.digests else self._lost.get(digest, "is not kept")

    def _unrecorded(self, path: str, title: str, last: Found | None) -> Found:
        self._say(f"{LOOKED} {title}, but its earlier content is not recorded: the view shows the current content")
        found = self._disk.look(path, title, last)
        # Without a stamp, so that the first live look reads the file and records it.
        return replace(found, stamp=None, recorded=False, data=None)

    def _say(self, phrase: str) -> None:
        """Add a phrase once for each path and reason."""
        if phrase not in self._told:
            self._told.add(phrase)
            self._phrases.append(phrase)


def _is(revision: Revision, seen: SeenRevision) -> bool:
    if seen.digest:
        return revision.digest == seen.digest and (seen.state != "text" or revision.notice == seen.notice)
    return (revision.state, revision.notice) == (seen.state, seen.notice)


def _unknown(title: str, lost: str) -> Revision:
    return without_content(
        "unreadable", f"(the earlier content of {title} {lost}; Refresh() shows the current content)"
    )
