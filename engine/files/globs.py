"""A glob as a member of a group: its files, shown in a group's summary without being nodes.

Owns the manifest that the group shows, and the contents of files that it has read for that. A few small files are shown
one by one, like views; many as a listing or an overview. Only the group decides when files are read, at moments that
recur when its steps run again: a look at any other moment would be missing in the record. Must not know the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..core.text import plural
from ..log.events.nodes import PayloadBasis
from .changes import counted
from .detail import ladder_at
from .detail.scene import Scene
from .document import Place
from .filling import EMPTY, Ladder, single
from .group_summary import Part, Salience, need_of
from .looks import Looks
from .manifest import Listed, Manifest, ManifestChange, change_between, changed_rows, glob_path, listing, manifest_of
from .outline.model import Outline
from .overview import Ranked, overview, unpacked
from .rendered import RenderedView, ShownRevision, ShownRevisions
from .revision import Found, Revision

_MOST_SHOWN: Final = 64
"""Largest number of files that are shown one by one, whatever the budget; more are listed."""
_LARGEST: Final = 256 << 10
"""Bytes of the largest file that is read for a summary."""
_LINE_TOKENS: Final = 5
OVERVIEW: Final = 1
"""The coarsest level at which a large glob is an overview."""


@dataclass(frozen=True, slots=True)
class Globbing:
    """What globs need of their board.

    The source of looks, outlines by path, exact tokens, and the number of the last statement that wrote a file.
    """

    looks: Looks
    outline: Callable[[Revision, str], Outline]
    count: Callable[[str], int]
    edited: Callable[[str], int]


class Glob:
    """The files below `root`, an absolute directory, that match `pattern`.

    `text` is the spelling in statements. `unread` is the difference between the manifest and the one that a model read
    last.
    """

    def __init__(self, globbing: Globbing, root: str, pattern: str, text: str) -> None:
        self.text = text
        self.root = root
        self.pattern = pattern
        self.key = glob_path(root, pattern)
        self.unread = ManifestChange()
        self._globbing = globbing
        self._found: Found | None = None
        self._manifest = self._read = Manifest("", "")
        self._contents: dict[str, tuple[str, Found]] = {}
        self._contents_read = self._contents
        """The contents when a model last read the group."""
        self._shown: dict[str, ShownRevisions] = {}
        self._ranked: tuple[Ranked, ...] = ()
        self._ranked_for = ""

    @property
    def manifest(self) -> Manifest:
        """The files at the last look."""
        return self._manifest

    @property
    def revision(self) -> Revision | None:
        """The revision of the last look; None before the first."""
        return None if self._found is None else self._found.revision

    @property
    def contents(self) -> dict[str, tuple[str, Revision]]:
        """The files that were read, by path, each with its mark at that time."""
        return {path: (mark, found.revision) for path, (mark, found) in self._contents.items()}

    @property
    def contents_read(self) -> dict[str, tuple[str, Revision]]:
        """Like `contents`, as they were when a model last read the group."""
        return {path: (mark, found.revision) for path, (mark, found) in self._contents_read.items()}

    def path_of(self, path: str) -> str:
        """Return the absolute path of one of the files."""
        return f"{self.root.rstrip('/')}/{path}"

    def refresh(self) -> ManifestChange:
        """Look for files and return the difference; none at the first look."""
        before = self._found
        self._found = self._globbing.looks.look(self.key, self.text, before)
        if before is None:
            self._manifest = self._read = manifest_of(self._found.revision)
            return ManifestChange()
        if self._found.revision.same_as(before.revision):
            return ManifestChange()
        old, self._manifest = self._manifest, manifest_of(self._found.revision)
        change = change_between(old, self._manifest)
        self.unread = change if old is self._read else change_between(self._read, self._manifest)
        return change

    def net_change(self) -> ManifestChange:
        """Return the difference to the files that a model read last."""
        return self.without_equal(self.unread, self.contents_read)

    def without_equal(self, change: ManifestChange, before: Mapping[str, tuple[str, Revision]]) -> ManifestChange:
        """Leave out the changed files whose content is as `before`."""
        now = self.contents
        changed = tuple(
            path
            for path in change.changed
            if path not in before or path not in now or not now[path][1].same_as(before[path][1])
        )
        return replace(change, changed=changed) if changed != change.changed else change

    def foresee(self) -> ManifestChange:
        """Return the difference that `refresh` would return now; changes nothing."""
        if self._found is None:
            return ManifestChange()
        found = self._globbing.looks.peek(self.key, self.text, self._found)
        if found.revision.same_as(self._found.revision):
            return ManifestChange()
        return change_between(self._manifest, manifest_of(found.revision))

    @property
    def shown(self) -> Mapping[str, ShownRevisions]:
        """The displayed revisions of files, by path."""
        return self._shown

    def take(
        self, revision: Revision, contents: dict[str, tuple[str, Revision]], shown: dict[str, ShownRevisions]
    ) -> None:
        """Restore the results of earlier looks and displays."""
        self._shown = shown
        self._found = Found(revision, recorded=True)
        self._manifest = self._read = manifest_of(revision)
        self._contents = {path: (mark, Found(each, recorded=True)) for path, (mark, each) in contents.items()}
        self._contents_read = self._contents

    def mark_displayed(self, statement: int) -> None:
        """Note that a statement's result shows the group, with the files that were read."""
        for path, (_, found) in self._contents.items():
            self._shown.setdefault(path, ShownRevisions()).displayed(ShownRevision(found.revision, statement))

    def mark_projected(self) -> bool:
        """Note that a model has read the group.

        Return whether files now compare with other revisions.
        """
        self._read, self.unread, self._contents_read = self._manifest, ManifestChange(), self._contents
        marked = [shown.mark_read() for shown in self._shown.values()]
        return any(marked)

    def read_files(self) -> None:
        """Read the changed files that are shown one by one, and forget all others."""
        known = self._contents
        self._contents = {path: self._current(path, mark, known.get(path)) for path, mark in self._wanted()}
        self._shown = {path: known for path, known in self._shown.items() if path in self._contents}

    def _current(self, path: str, mark: str, known: tuple[str, Found] | None) -> tuple[str, Found]:
        if known is not None and known[0] == mark:
            return known
        last = None if known is None else known[1]
        return mark, self._globbing.looks.look(self.path_of(path), path, last, of_glob=True)

    def basis(self) -> PayloadBasis | None:
        """Return the basis of an overview.

        Returns None if the files are shown one by one, or the overview is there.
        """
        digest = self._manifest.digest if self.is_large else ""
        return PayloadBasis(obj_digest_hash=digest) if digest and digest != self._ranked_for else None

    def take_overview(self, data: bytes) -> None:
        """Show an overview made for the current basis.

        Raises ValueError for invalid data.
        """
        self._ranked, self._ranked_for = unpacked(data), self._manifest.digest

    @property
    def is_large(self) -> bool:
        """Whether the files are listed, and not shown one by one."""
        return self._manifest.number > _MOST_SHOWN

    def _wanted(self) -> Sequence[tuple[str, str]]:
        """Return the files to show one by one, with their marks."""
        if self.is_large:
            return ()
        return [(path, listed.mark) for path, listed in self._manifest.files.items() if listed.size <= _LARGEST]

    # --- parts -------------------------------------------------------------------------------------------------------

    def part(self) -> Part:
        """Return the current content for the group's summary."""
        manifest, unread, count = self._manifest, self.unread, self._globbing.count
        first = "the first " if manifest.is_cut else ""
        title = f"{self.text}, {first}{manifest.number:,} {plural(manifest.number, 'file')}"
        if not self.is_large:
            parts = tuple(self._file(path, listed) for path, listed in manifest.files.items())
            if [part.title for part in parts] == [self.text]:
                return parts[0]  # the glob is the path of a file, which needs no heading above its own
            return Part(
                key=self.key, name="", title=title, lod=0, need=need_of(parts), ladder=None, parts=parts, rolled=True
            )
        return Part(
            key=self.key,
            name="",
            title=title,
            lod=0,
            need=len(manifest.text),
            ladder=_listing(manifest, unread, self._ranked, count),
            salience=Salience(changed=bool(unread)),
        )

    def _file(self, path: str, listed: Listed) -> Part:
        known, count = self._contents.get(path), self._globbing.count
        if known is None:
            text = f"({listed.size:,} {plural(listed.size, 'byte')})\n"
            view = RenderedView(text=text, tokens=count(text))
            need, ladder = view.tokens, _single(view)
        else:
            revision = known[1].revision
            last = shown.last if (shown := self._shown.get(path)) else None
            scene = Scene(
                revision=revision,
                place=Place(0, 0),
                budget=1,
                count=count,
                title=path,
                last_shown=last.revision if last else None,
                shown_in=last.statement if last else 0,
            )
            need = listed.size + _LINE_TOKENS * (len(revision.lines) + 2)
            ladder = _ladders(scene, self._globbing.outline, path)
        changed = path in self.unread.changed or path in self.unread.added
        return Part(
            key=self.path_of(path),
            name="",
            title=path,
            lod=0,
            need=need,
            ladder=ladder,
            salience=Salience(changed=changed, edited=self._globbing.edited(self.path_of(path))),
        )

    def describe(self, change: ManifestChange) -> str:
        """Describe a change of the files in a few words."""
        what = (("changed", change.changed), ("new", change.added), ("gone", change.removed))
        return f"files of {self.text}: {counted(what)}"


_Ladders = Callable[[int, int, bool], Ladder]


def _listing(
    manifest: Manifest, unread: ManifestChange, ranked: Sequence[Ranked], count: Callable[[str], int]
) -> _Ladders:
    def ladder(lod: int, limit: int, _sparing: bool) -> Ladder:
        if not ranked or lod > OVERVIEW:
            return listing(manifest, unread, limit, count)
        return overview(ranked, manifest.number, tuple(changed_rows(unread)), limit, count)

    return ladder


def _single(rendered: RenderedView) -> _Ladders:
    return lambda _lod, limit, _sparing: single(rendered) if rendered.tokens <= limit else EMPTY


def _ladders(scene: Scene, outline: Callable[[Revision, str], Outline], path: str) -> _Ladders:
    def ladder(lod: int, limit: int, sparing: bool) -> Ladder:
        sized = replace(scene, budget=limit, sparing=sparing)
        return ladder_at(sized, lod, lambda revision: outline(revision, path))

    return ladder
