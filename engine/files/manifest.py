"""Manifests: which files a glob matches at one moment, and a listing of them within a budget.

A manifest is a text, which the log keeps, and its digest. Each line is `mark size path`, in the order of paths. A mark
is made from the file's stat, so that files need not be read to be listed. Pure. Written by
`runtime.worker.handles.trees`, read by `globs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from ..core.text import DOTS, more, plural
from .filling import Ladder, Spent
from .filling import ladder as filled
from .rendered import RenderedView
from .revision import Revision

_BETWEEN: Final = "/./"
CUT: Final = "..."
"""The last line if there are more files than listed."""


def glob_path(root: str, pattern: str) -> str:
    """Return the path under which looks at a glob are recorded.

    No normalized path has a single dot as a part, so it cannot be a file's.
    """
    return f"{root}{_BETWEEN}{pattern}"


def is_glob(path: str) -> bool:
    """Return whether a path stands for a glob."""
    return _BETWEEN in path


def place_of(path: str) -> tuple[str, str]:
    """Return the root and the pattern of a glob's path."""
    root, _, pattern = path.partition(_BETWEEN)
    return root or "/", pattern


class Listed(NamedTuple):
    """A file's mark, and its size in bytes."""

    mark: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRevision(Revision):
    """The revision of a glob.

    It has its text in one piece, because its lines are never shown.
    """

    text: str = ""


@dataclass(frozen=True)
class Manifest:
    """The files of a glob. `digest` is the xxh3 hex of its text."""

    text: str
    digest: str

    @property
    def number(self) -> int:
        """Number of files listed."""
        return self.text.count("\n") - self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether there were more files than listed."""
        return self.text.endswith(f"\n{CUT}\n")

    @cached_property
    def files(self) -> Mapping[str, Listed]:
        """The files by path from the root, in order.

        For a manifest that is not large.
        """
        return dict(map(_read, self.lines()))

    @cached_property
    def directories(self) -> Mapping[str, int]:
        """Number of files in each directory that has files itself, in order.

        The root is "".
        """
        numbers: dict[str, int] = {}
        for line in self.lines():
            directory = line.rpartition("/")[0].split(" ", 2)[-1] if "/" in line else ""
            numbers[directory] = numbers.get(directory, 0) + 1
        return numbers

    def lines(self) -> list[str]:
        """Return a line for each file."""
        lines = self.text.split("\n")
        del lines[self.number :]
        return lines


def _read(line: str) -> tuple[str, Listed]:
    mark, size, path = line.split(" ", 2)
    return path, Listed(mark, int(size))


def manifest_of(revision: Revision) -> Manifest:
    """Return the manifest in a revision; an empty one if it has no content."""
    if isinstance(revision, ManifestRevision):
        return Manifest(revision.text, revision.digest)
    text = "\n".join(revision.lines) + "\n" if revision.state == "text" and revision.lines else ""
    return Manifest(text, revision.digest)


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """The difference between two manifests: paths, in order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def change_between(before: Manifest, after: Manifest) -> ManifestChange:
    """Compare two manifests; a file with another mark has changed.

    Costs a comparison of lines.
    """
    if before.digest == after.digest:
        return ManifestChange()
    lines = before.lines(), after.lines()
    known, found = map(set, lines)
    old = dict(_read(line) for line in lines[0] if line not in found)
    new = dict(_read(line) for line in lines[1] if line not in known)
    return ManifestChange(
        added=tuple(path for path in new if path not in old),
        removed=tuple(path for path in old if path not in new),
        changed=tuple(path for path in new if path in old),
    )


_NAMED: Final = 8
"""Number of files that a listing names for each kind of change."""
_DEEPEST: Final = 12
_ROOT: Final = "."


def listing(manifest: Manifest, change: ManifestChange, limit: int, count: Callable[[str], int]) -> Ladder:
    """Return the listings of at most `limit` tokens.

    The units are the changes; rows that count the files of each directory, first for outer directories, then also for
    inner ones; and the names of files in place of the counts.
    """
    rows: list[_Rows] = []

    def texts() -> Iterator[Spent | None]:
        changes: list[str] = []
        for line in changed_rows(change):
            changes.append(line)
            rows.append(_Rows("".join(changes)))
            yield Spent(count(rows[-1].changes), 0)
        begin = "".join(changes)
        for listed in (*_by_depth(manifest, begin, limit), *_by_directory(manifest, begin, limit)):
            rows.append(listed)
            spent = sum(map(count, (begin, *listed.rows))) + (count(listed.rest) if listed.rest else 0)
            yield Spent(spent, 0)

    def show(number: int) -> RenderedView:
        text = rows[number].text()
        return RenderedView(text=text, tokens=count(text), whole=rows[number].is_whole)

    return filled(texts(), limit, show)


@dataclass(frozen=True, slots=True)
class _Rows:
    """One listing: changes, rows, and a line that counts missing rows."""

    changes: str
    rows: Sequence[str] = ()
    rest: str = ""
    is_whole: bool = False

    def text(self) -> str:
        return "".join((self.changes, *self.rows, self.rest))


def _by_depth(manifest: Manifest, begin: str, limit: int) -> Iterator[_Rows]:
    """Yield the listings that count files, first for outer directories only."""
    deepest = min(max((path.count("/") + 1 for path in manifest.directories), default=0), _DEEPEST)
    for depth in range(1, deepest + 1):
        counted = _counted(manifest, depth)
        # A row takes at least one token, so more rows than `limit` cannot fit.
        for number in range(1, min(len(counted), limit + 1)) if depth == 1 else ():
            yield _Rows(begin, counted[:number], _rest(len(counted) - number))
        if len(counted) > limit:
            return
        yield _Rows(begin, counted)


def _by_directory(manifest: Manifest, begin: str, limit: int) -> Iterator[_Rows]:
    """Yield the listings that name the files of more and more directories, and count those of the others."""
    if len(manifest.directories) > limit or not manifest.number:
        return
    shown = [_number_row(directory, number) for directory, number in manifest.directories.items()]
    for index, row in enumerate(_by_name(manifest)):
        shown[index] = row
        yield _Rows(begin, list(shown), is_whole=index == len(shown) - 1)


def changed_rows(change: ManifestChange) -> Iterator[str]:
    """Yield a line for each kind of change."""
    for what, paths in (("changed", change.changed), ("new", change.added), ("gone", change.removed)):
        if paths:
            yield f"{what}: {_named(paths)}\n"


def _named(paths: Sequence[str]) -> str:
    rest = [more(len(paths) - _NAMED)] if len(paths) > _NAMED else []
    return ", ".join((*paths[:_NAMED], *rest))


def _by_name(manifest: Manifest) -> list[str]:
    below: dict[str, list[str]] = {}
    for path in manifest.files:
        directory, _, name = path.rpartition("/")
        below.setdefault(directory or _ROOT, []).append(name)
    return [f"{directory}/ {' '.join(names)}\n" for directory, names in below.items()]


def _counted(manifest: Manifest, depth: int) -> list[str]:
    numbers: dict[str, int] = {}
    for path, number in manifest.directories.items():
        directory = "/".join(path.split("/")[:depth])
        numbers[directory] = numbers.get(directory, 0) + number
    return [_number_row(directory, number) for directory, number in numbers.items()]


def _number_row(directory: str, number: int) -> str:
    return f"{directory or _ROOT}/ {number:,} {plural(number, 'file')}\n"


def _rest(rows: int) -> str:
    return f"{DOTS} {rows:,} more {'directory' if rows == 1 else 'directories'}\n"
