"""The source of looks of a replay: what the log says that the same looks found, never what is on disk now.

Owns the record, as the host sends it step by step with the contents, and a phrase on each look that it does not answer.
Must not know the log, nor how messages travel. Made and filled by `looks`.

A look is answered by the recorded one of the same path and number. Where there is none, the look had brought what its
document had already: the newest revision recorded for the path until then. Two go to the disk all the same: those of a
step of which the log says nothing, because an earlier version wrote it; and one at a content that was not kept, where
the file still holds exactly that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from ..core.cutting import plural
from ..core.execution import LOOKED
from ..log.events.nodes import RevisionState
from .disk import Disk
from .found import Found, recorded_path
from .page import is_page, page_revision
from .page_index import unpacked
from .paged_lines import PagedLines, ReadPage, paged_revision
from .revision import Revision, binary_as_seen, decoded, listing, without_content

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
