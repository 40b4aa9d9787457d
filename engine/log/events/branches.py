"""The paths through a session's log: where a branch leaves another one, and which of them is active."""

from __future__ import annotations

from typing import ClassVar

from ...core.execution import StatementNumber
from ...core.ids import BranchId, Seq
from .base import Event


class BranchCreated(Event, frozen=True, kw_only=True):
    """There is a branch `branch`: the path of `parent` as far as it lies before position `before`, then its own events.

    Stamped with the branch that was active, which it does not change.
    """

    kind: ClassVar[str] = "branch_created"

    branch: BranchId
    parent: BranchId
    before: Seq


class HeadMoved(Event, frozen=True, kw_only=True):
    """From here on the branch `branch` is active: this is the first event that is stamped with it since.

    `left` was active before; `statement` is the number of the last statement on the path that counts now, 0 for none.
    Prompts that waited go along: those that still wait are announced again.
    """

    kind: ClassVar[str] = "head_moved"

    branch: BranchId
    left: BranchId
    statement: StatementNumber

    @property
    def waits(self) -> bool:
        return True


BranchEvent = BranchCreated | HeadMoved
