"""A listing of many files within a budget: their directories, as deep as there is room for, and names where there is.

What stands for a glob that is too large to be shown file by file. Pure. Called by `glob_member`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ..cutting import DOTS, more, plural
from .manifest import Listed, ManifestChange
from .rendered import RenderedView

_NAMED: Final = 8
"""Files of each kind of change that are named."""
_DEEPEST: Final = 12
_ROOT: Final = "."


def listing(
    files: Mapping[str, Listed], change: ManifestChange, budget: int, count: Callable[[str], int]
) -> RenderedView:
    """What changed, then the files: by name where that fits, else their number in each directory."""
    changes = "".join(_changes(change))
    if count(changes) > budget // 2:
        changes = ""
    room = budget - count(changes)
    for rows, is_whole in _ways(files):
        tokens = sum(map(count, rows))
        if tokens <= room:
            return RenderedView(text=changes + "".join(rows), tokens=count(changes) + tokens, whole=is_whole)
    return _cut(changes, _counted(files, 1), room, count)


def _changes(change: ManifestChange) -> Iterator[str]:
    for what, paths in (("changed", change.changed), ("new", change.added), ("gone", change.removed)):
        if paths:
            yield f"{what}: {_named(paths)}\n"


def _named(paths: Sequence[str]) -> str:
    rest = [more(len(paths) - _NAMED)] if len(paths) > _NAMED else []
    return ", ".join((*paths[:_NAMED], *rest))


def said(change: ManifestChange) -> str:
    """The change in a few words, for a line of its own."""
    return "; ".join(line.rstrip("\n") for line in _changes(change))


def _ways(files: Mapping[str, Listed]) -> Iterator[tuple[list[str], bool]]:
    yield _by_name(files), True
    deepest = min(max((path.count("/") for path in files), default=0), _DEEPEST)
    for depth in range(deepest, 0, -1):
        yield _counted(files, depth), False


def _by_name(files: Mapping[str, Listed]) -> list[str]:
    below: dict[str, list[str]] = {}
    for path in files:
        directory, _, name = path.rpartition("/")
        below.setdefault(directory or _ROOT, []).append(name)
    return [f"{directory}/ {' '.join(names)}\n" for directory, names in below.items()]


def _counted(files: Mapping[str, Listed], depth: int) -> list[str]:
    numbers: dict[str, int] = {}
    for path in files:
        directory = "/".join(path.split("/")[:-1][:depth]) or _ROOT
        numbers[directory] = numbers.get(directory, 0) + 1
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
