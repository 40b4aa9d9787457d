"""A listing of many files within a budget: their directories, as deep as there is room for, and names where there is.

What stands for a glob that is too large to be shown file by file. Pure. Called by `glob_member`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..core.cutting import DOTS, more, plural
from .manifest import Manifest, ManifestChange
from .rendered import RenderedView

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
