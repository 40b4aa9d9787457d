"""The differences between two branches: statements since they split, names, and files.

Pure: a fold over the two paths and over the writes since each branch was left. Equal names and files are left out. Used
by `/diff` and `rewindow diff`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...core.errors import InvalidRequestError
from ...core.ids import BranchId
from ...log.branches import Branches, branch_named, end_of
from ...log.event_log import lookup_in
from ...log.events import Event
from ...log.events.execution import ExecutionFinished
from ...log.file_history import restorable
from ...log.timeline import Cell, Timeline


class Side(Struct, frozen=True):
    """A name or a file on one branch: a short description, and a digest if there is one."""

    shown: str
    digest: str


class Differing(Struct, frozen=True):
    """A name or a file that differs. A side is None if its branch does not have it."""

    name: str
    left: Side | None
    right: Side | None


class BranchDiff(Struct, frozen=True):
    """The differences of two branches that share their first `shared` statements; the `cells` come after these."""

    left: BranchId
    right: BranchId
    shared: int
    left_cells: Sequence[Cell]
    right_cells: Sequence[Cell]
    names: Sequence[Differing]
    files: Sequence[Differing]


def diff(events: Sequence[Event], branches: Branches, left: str, right: str) -> BranchDiff:
    """Compares the ends of two branches of a whole log.

    Raises:
        InvalidRequestError: a branch does not exist, or both are the same.
    """
    first, second = branch_named(branches, left), branch_named(branches, right)
    if first.name == second.name:
        raise InvalidRequestError(f"{first.name} cannot be compared with itself; name another branch.")
    cells, others = (_cells(branches.path(events, branch.name)) for branch in (first, second))
    pairs = zip(cells, others, strict=False)
    shared = next((at for at, (a, b) in enumerate(pairs) if a.statement != b.statement), min(len(cells), len(others)))
    files, other_files = (_files(events[end_of(branch, branches, events) :]) for branch in (first, second))
    now = _files_now(events)
    return BranchDiff(
        left=first.name,
        right=second.name,
        shared=shared,
        left_cells=cells[shared:],
        right_cells=others[shared:],
        names=_differing(_names(cells), _names(others)),
        files=_differing({**now, **files}, {**now, **other_files}, files.keys() | other_files.keys()),
    )


def _cells(path: Sequence[Event]) -> Sequence[Cell]:
    timeline = Timeline(lookup_in(path))
    for event in path:
        if type(event) in Timeline.FOLLOWS:
            timeline.apply(event)
    return timeline.cells


def _names(cells: Iterable[Cell]) -> Mapping[str, Side]:
    names: dict[str, Side] = {}
    for finished in (cell.finished for cell in cells if cell.finished is not None and not cell.omitted):
        _take(names, finished)
    return names


def _take(names: dict[str, Side], finished: ExecutionFinished) -> None:
    diff = finished.diff
    for name, info in diff.added.items():
        names[name] = Side(info.short_repr, diff.digests.get(name, ""))
    for name, change in diff.changed.items():
        names[name] = Side(change.after.short_repr, change.after_digest or "")
    for name in diff.deleted:
        names.pop(name, None)


def _files(since: Iterable[Event]) -> Mapping[str, Side | None]:
    """The content that each file written in these events had before them."""
    found = restorable(since)
    held = {file.path: _file(file.wanted_digest) for file in found.files}
    return held | {file.path: Side(f"({file.reason})", file.reason) for file in found.left}


def _files_now(events: Iterable[Event]) -> Mapping[str, Side | None]:
    """The last content that the session wrote to each file, unless it equals the content before the session."""
    return {file.path: _file(file.present_digest) for file in restorable(events).files}


def _file(digest: str) -> Side | None:
    return Side(digest, digest) if digest else None


def _differing(
    left: Mapping[str, Side | None], right: Mapping[str, Side | None], among: Iterable[str] | None = None
) -> Sequence[Differing]:
    names = left.keys() | right.keys() if among is None else among
    pairs = ((name, left.get(name), right.get(name)) for name in sorted(names))
    return [Differing(name, a, b) for name, a, b in pairs if not _is_same(a, b)]


def _is_same(left: Side | None, right: Side | None) -> bool:
    """Compare digests if both have one, because the shown text is cut."""
    if left is None or right is None:
        return left is right
    return left.digest == right.digest if left.digest and right.digest else left.shown == right.shown
