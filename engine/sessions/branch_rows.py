"""The branches of a log as they are listed: which statements each has, and where it leaves its parent.

Pure. Used by `/branch`, and by whoever lists branches elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..events.execution import StatementRecorded
from ..ids import BranchId
from ..log import EventLog


class BranchRow(Struct, frozen=True):
    """A branch. `shared` is the number of the last statement that it has from `parent`, `last` that of its last one."""

    name: BranchId
    parent: BranchId | None
    shared: int
    last: int
    is_active: bool


def branch_rows(log: EventLog) -> Sequence[BranchRow]:
    """In the order in which they were made."""
    branches = log.branches
    statements = [event for event in log.events if isinstance(event, StatementRecorded)]
    rows: list[BranchRow] = []
    for branch in branches.all:
        path = branches.path(statements, branch.name)
        shared = sum(event.branch_id != branch.name for event in path)
        rows.append(BranchRow(branch.name, branch.parent, shared, len(path), branch.name == branches.active))
    return rows
