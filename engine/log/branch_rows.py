"""The branches of a log as they are listed: which statements each has, where it leaves its parent, where it ends.

Pure. Used by the commands on branches, and by whoever lists branches elsewhere.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Struct

from ..core.errors import InvalidRequestError
from ..core.ids import BranchId, Seq
from ..core.text import cut_line, printable
from .branches import Branch, Branches
from .events import Event
from .events.execution import StatementRecorded

SHOWN_BRANCHES: Final = 20
"""The newest ones, where a person reads along with other things."""
_SHOWN_CHARS: Final = 20


class BranchRow(Struct, frozen=True):
    """A branch. `shared` is the number of the last statement that it has from `parent`, `last` that of its last one."""

    name: BranchId
    parent: BranchId | None
    shared: int
    last: int
    is_active: bool


class BranchStatements:
    """Where on the log each branch has its own statements. `apply` is for the log alone, the whole of it."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((StatementRecorded,))

    def __init__(self) -> None:
        self._places: dict[BranchId, array[int]] = {}

    def apply(self, event: Event) -> None:
        if isinstance(event, StatementRecorded):
            self._places.setdefault(event.branch_id, array("q")).append(event.seq)

    def below(self, branch: BranchId, bound: int) -> int:
        """How many of its own statements the branch has below that position of the log."""
        return bisect_left(self._places.get(branch, ()), bound)


def branch_rows(branches: Branches, statements: BranchStatements) -> Sequence[BranchRow]:
    """In the order in which they were made."""
    rows: list[BranchRow] = []
    for branch in branches.all:
        counts = {name: statements.below(name, bound) for name, bound in branches.bounds_of(branch.name).items()}
        last = sum(counts.values())
        shared = last - counts[branch.name]
        rows.append(BranchRow(branch.name, branch.parent, shared, last, branch.name == branches.active))
    return rows


def in_common(rows: Sequence[BranchRow], left: BranchId, right: BranchId) -> int:
    """The number of the last statement that both branches have, 0 where they have none in common."""
    reached = _reached(rows, left)
    other = _reached(rows, right)
    return next(min(number, other[name]) for name, number in reached.items() if name in other)


def _reached(rows: Sequence[BranchRow], name: BranchId) -> dict[BranchId, int]:
    """The branches that the path of this one goes through, itself first, each with its last statement that counts."""
    by_name = {row.name: row for row in rows}
    row, number = by_name[name], by_name[name].last
    reached = {row.name: number}
    while row.parent is not None:
        number = min(number, row.shared)
        row = by_name[row.parent]
        reached[row.name] = number
    return reached


def branch_named(branches: Branches, name: str) -> Branch:
    """The branch of that name. Raises InvalidRequestError with one sentence where there is none."""
    found = branches.named(name)
    if found is None:
        shown = cut_line(printable(name), _SHOWN_CHARS)
        raise InvalidRequestError(f"There is no branch {shown}; the session has {names_of(branches)}.")
    return found


def names_of(branches: Branches) -> str:
    """What there is to choose from, as a sentence ends with it: the first branch, and of the others the newest."""
    names = [branch.name for branch in branches.all]
    rest = len(names) - 1 - SHOWN_BRANCHES
    return ", ".join(names) if rest <= 0 else f"{', '.join([names[0], *names[-SHOWN_BRANCHES:]])} and {rest} more"


def end_of(branch: Branch, branches: Branches, events: Sequence[Event]) -> Seq:
    """The position at which the branch was left last; the end of the log where it is the active one."""
    if branch.name == branches.active:
        return Seq(len(events))
    own = (event.seq for event in reversed(events) if event.branch_id == branch.name)
    return Seq(next(own, branch.before - 1) + 1)
