"""A listing of many files within a budget: their directories, as deep as there is room for, and names where there is.

What stands for a glob that is too large to be shown file by file. Pure. Called by `glob_member`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..core.text import DOTS, more, plural
from ..log.events.nodes import PayloadBasis
from .changes import counted
from .detail import rendered_at
from .detail.scene import Scene
from .document import Place
from .group_summary import Part, Salience, need_of
from .looks import Looks
from .outline.model import Outline
from .outlines import Ranked, overview, unpacked
from .rendered import RenderedView, ShownRevision, ShownRevisions
from .revision import Found, Listed, Manifest, ManifestChange, Revision, change_between, glob_path, manifest_of

_NAMED: Final = 8
"""Files of each kind of change that are named."""
_DEEPEST: Final = 12
_ROOT: Final = "."


def listing(manifest: Manifest, change: ManifestChange, budget: int, count: Callable[[str], int]) -> RenderedView:
    """What changed, then the files: by name where that fits, else their number in each directory."""
    changes = "".join(_changes(change))
    if count(changes) > budget // 2:
        changes = ""
    room = budget - count(changes)
    for rows, is_whole in _ways(manifest, room):
        tokens = sum(map(count, rows))
        if tokens <= room:
            return RenderedView(text=changes + "".join(rows), tokens=count(changes) + tokens, whole=is_whole)
    return _cut(changes, _counted(manifest, 1), room, count)


def _changes(change: ManifestChange) -> Iterator[str]:
    for what, paths in (("changed", change.changed), ("new", change.added), ("gone", change.removed)):
        if paths:
            yield f"{what}: {_named(paths)}\n"


def _named(paths: Sequence[str]) -> str:
    rest = [more(len(paths) - _NAMED)] if len(paths) > _NAMED else []
    return ", ".join((*paths[:_NAMED], *rest))


def _ways(manifest: Manifest, room: int) -> Iterator[tuple[list[str], bool]]:
    # A name takes a token at least, and so does a row; counting the tokens of more is in vain.
    if manifest.number <= room:
        yield _by_name(manifest), True
    deepest = min(max((path.count("/") + 1 for path in manifest.directories), default=0), _DEEPEST)
    for depth in range(deepest, 0, -1):
        rows = _counted(manifest, depth)
        if len(rows) <= room:
            yield rows, False


def _by_name(manifest: Manifest) -> list[str]:
    below: dict[str, list[str]] = {}
    for path in manifest.files:
        directory, _, name = path.rpartition("/")
        below.setdefault(directory or _ROOT, []).append(name)
    return [f"{directory}/ {' '.join(names)}\n" for directory, names in below.items()]


def _counted(manifest: Manifest, depth: int) -> list[str]:
    numbers: dict[str, int] = {}
    for path, number in manifest.directories.items():
        directory = "/".join(path.split("/")[:depth]) or _ROOT
        numbers[directory] = numbers.get(directory, 0) + number
    return [f"{directory}/ {number:,} {plural(number, 'file')}\n" for directory, number in numbers.items()]


def _cut(changes: str, rows: Sequence[str], room: int, count: Callable[[str], int]) -> RenderedView:
    """The first of the rows that fit, and a line that counts the others."""
    kept: list[str] = []
    room -= count(_rest(len(rows)))
    for row in rows:
        room -= count(row)
        if room < 0:
            break
        kept.append(row)
    if not kept and not changes:
        return RenderedView(text="", tokens=0, whole=False)
    text = changes + "".join(kept) + (_rest(len(rows) - len(kept)) if kept else "")
    return RenderedView(text=text, tokens=count(text), whole=False)


def _rest(rows: int) -> str:
    return f"{DOTS} {rows:,} {'directory' if rows == 1 else 'directories'} more\n"


# glob member:
# A glob as a member of a group: the files that match it, looked at together, and none of them a node.
#
# Owns the manifest that the group shows, and the contents of the files that it has read for that. A few small files
# are shown each by itself, in the way of views; many as a listing. When files are read is decided by the group alone,
# at moments that come again when its steps run again: a look at any other moment would be missing on the record. Must
# not know the group.

_MOST_SHOWN: Final = 64
"""Files that are shown each by itself, at most; of more there is a listing."""
_TOKENS_EACH: Final = 48
"""Of the group's budget there must be so many for each of them; with fewer an overview says more."""
_LARGEST: Final = 256 << 10
"""Bytes of a file that is read for a summary."""
_LINE_TOKENS: Final = 5
OVERVIEW: Final = 1
"""The coarsest level at which a large glob is an overview."""
_NOTHING: Final = RenderedView(text="", tokens=0)


@dataclass(frozen=True, slots=True)
class Globbing:
    """What globs need of their board: who answers looks, what a revision declares by its path, and exact tokens."""

    looks: Looks
    outline: Callable[[Revision, str], Outline]
    count: Callable[[str], int]


class Glob:
    """The files below `root`, an absolute directory, that `pattern` matches. `text` is how statements write it.

    `unread` is how the manifest differs from the one that a model has read last.
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
        self._shown: dict[str, ShownRevisions] = {}
        self._ranked: tuple[Ranked, ...] = ()
        self._ranked_for = ""

    @property
    def manifest(self) -> Manifest:
        """The files as they were looked at last."""
        return self._manifest

    @property
    def revision(self) -> Revision | None:
        """What the last look brought; None before the first."""
        return None if self._found is None else self._found.revision

    @property
    def contents(self) -> dict[str, tuple[str, Revision]]:
        """The files that were read, by path, each with its mark at that time."""
        return {path: (mark, found.revision) for path, (mark, found) in self._contents.items()}

    def path_of(self, path: str) -> str:
        """The absolute path of one of its files."""
        return f"{self.root.rstrip('/')}/{path}"

    def refresh(self) -> ManifestChange:
        """Looks for files now, and returns how they differ from those of before; nothing at the first look."""
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

    def foresee(self) -> ManifestChange:
        """What `refresh` would return now; nothing changes."""
        if self._found is None:
            return ManifestChange()
        found = self._globbing.looks.peek(self.key, self.text, self._found)
        if found.revision.same_as(self._found.revision):
            return ManifestChange()
        return change_between(self._manifest, manifest_of(found.revision))

    @property
    def shown(self) -> Mapping[str, ShownRevisions]:
        """By the paths of those files, what was displayed of them."""
        return self._shown

    def take(
        self, revision: Revision, contents: dict[str, tuple[str, Revision]], shown: dict[str, ShownRevisions]
    ) -> None:
        """Takes over what was looked at, and displayed, before."""
        self._shown = shown
        self._found = Found(revision, recorded=True)
        self._manifest = self._read = manifest_of(revision)
        self._contents = {path: (mark, Found(each, recorded=True)) for path, (mark, each) in contents.items()}

    def mark_displayed(self, statement: int) -> None:
        """The result of that statement shows the group, and in it the files that were read."""
        for path, (_, found) in self._contents.items():
            self._shown.setdefault(path, ShownRevisions()).displayed(ShownRevision(found.revision, statement))

    def mark_projected(self) -> bool:
        """A model has read what the group shows; whether files differ from something else now."""
        self._read, self.unread = self._manifest, ManifestChange()
        marked = [shown.mark_read() for shown in self._shown.values()]
        return any(marked)

    def read_files(self, tokens: int) -> None:
        """Reads the files that a summary of so many tokens shows, where they have changed, and forgets all others."""
        known = self._contents
        self._contents = {path: self._current(path, mark, known.get(path)) for path, mark in self._wanted(tokens)}
        self._shown = {path: known for path, known in self._shown.items() if path in self._contents}

    def _current(self, path: str, mark: str, known: tuple[str, Found] | None) -> tuple[str, Found]:
        if known is not None and known[0] == mark:
            return known
        last = None if known is None else known[1]
        return mark, self._globbing.looks.look(self.path_of(path), path, last, of_glob=True)

    def basis(self) -> PayloadBasis | None:
        """What an overview of its files would hold of; None where there are too few for one, or it is there."""
        digest = self._manifest.paths_digest if self._manifest.number and not self._contents else ""
        return PayloadBasis(obj_digest_hash=digest) if digest and digest != self._ranked_for else None

    def take_overview(self, data: bytes) -> None:
        """Shows this overview, which holds of its basis, from now on. Raises ValueError for what is none."""
        self._ranked, self._ranked_for = unpacked(data), self._manifest.paths_digest

    def _wanted(self, tokens: int) -> Sequence[tuple[str, str]]:
        """The files that are shown each by itself, with their marks."""
        if self._manifest.number > min(_MOST_SHOWN, tokens // _TOKENS_EACH):
            return ()
        return [(path, listed.mark) for path, listed in self._manifest.files.items() if listed.size <= _LARGEST]

    # --- parts -------------------------------------------------------------------------------------------------------

    def part(self) -> Part:
        """The glob as it is now."""
        manifest, unread, count = self._manifest, self.unread, self._globbing.count
        first = "the first " if manifest.is_cut else ""
        title = f"{self.text}, {first}{manifest.number:,} {plural(manifest.number, 'file')}"
        if self._contents:
            parts = tuple(self._file(path, listed) for path, listed in manifest.files.items())
            return Part(key=self.key, name="", title=title, lod=0, need=need_of(parts), render=None, parts=parts)
        return Part(
            key=self.key,
            name="",
            title=title,
            lod=0,
            need=_LINE_TOKENS * manifest.number,
            render=_listing(manifest, unread, self._ranked, count),
            salience=Salience(changed=bool(unread)),
        )

    def _file(self, path: str, listed: Listed) -> Part:
        known = self._contents.get(path)
        # Of what is read, the line below says how long it is.
        title = path if known else f"{path}, {listed.size:,} {plural(listed.size, 'byte')}"
        changed = path in self.unread.changed or path in self.unread.added
        need, render = 0, _none
        if known is not None:
            revision = known[1].revision
            last = shown.last if (shown := self._shown.get(path)) else None
            scene = Scene(
                revision=revision,
                place=Place(0, 0),
                budget=1,
                count=self._globbing.count,
                title=path,
                last_shown=last.revision if last else None,
                shown_in=last.statement if last else 0,
            )
            need = listed.size + _LINE_TOKENS * (len(revision.lines) + 2)
            render = _rendering(scene, self._globbing.outline, path)
        return Part(
            key=self.path_of(path),
            name="",
            title=title,
            lod=0,
            need=need,
            render=render,
            salience=Salience(changed=changed),
        )

    def said(self, change: ManifestChange) -> str:
        """A change of its files in a few words."""
        what = (("changed", change.changed), ("new", change.added), ("gone", change.removed))
        return f"files of {self.text}: {counted(what)}"


def _listing(
    manifest: Manifest, unread: ManifestChange, ranked: Sequence[Ranked], count: Callable[[str], int]
) -> Callable[[int, int], RenderedView]:
    def render(lod: int, budget: int) -> RenderedView:
        if not ranked or lod > OVERVIEW:
            return listing(manifest, unread, budget, count)
        return overview(ranked, manifest.number, budget, count)

    return render


def _none(_lod: int, _budget: int) -> RenderedView:
    return _NOTHING


def _rendering(
    scene: Scene, outline: Callable[[Revision, str], Outline], path: str
) -> Callable[[int, int], RenderedView]:
    return lambda lod, budget: rendered_at(replace(scene, budget=budget), lod, lambda revision: outline(revision, path))
