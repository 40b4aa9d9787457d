"""What a plan is told of kept values: those of one execution, and those of a rebuild, with the names it had no copy of.

Copies are made some time after what they are of, so the head may have moved in between: they count on whatever branch
they were recorded. So does what was dropped of them, because it is gone. Pure. Used by `replay`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from ...core.ids import ExecutionId
from ..events import UNSTAMPED, Event
from ..events.execution import ValuesDropped, ValuesKept
from ..events.session import EnvironmentRestored
from ..past_values import PastRebuild, PastValues

NOT_ALLOWED: Final = "copies with fewer rights are not loaded"
"""Why there is none of a name."""


class KeptValues:
    """What was kept of each execution, and of each rebuild by its event's id. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ValuesKept, ValuesDropped))

    def __init__(self) -> None:
        self._kept: dict[str, list[ValuesKept]] = {}
        self._dropped_before = UNSTAMPED

    def apply(self, event: Event) -> None:
        match event:
            case ValuesKept(execution_id=execution_id):
                self._kept.setdefault(execution_id, []).append(event)
            case ValuesDropped(before=before):
                self._dropped_before = before
            case _:
                pass

    def groups(self, execution_id: ExecutionId) -> tuple[PastValues, ...]:
        """The copies, those included that have been dropped since."""
        return tuple(
            PastValues(
                names=group.names,
                content=group.content,
                dropped=each.seq < self._dropped_before,
                size=group.size,
                data=group.data,
            )
            for each in self._kept.get(execution_id, ())
            for group in each.groups
        )

    def unkept(self, execution_id: ExecutionId) -> dict[str, str]:
        """The names without a copy, each with the reason."""
        return {name: reason for each in self._kept.get(execution_id, ()) for name, reason in each.unkept.items()}


class Rebuild(Struct, frozen=True):
    """A rebuild that had no copy of some names."""

    restored: EnvironmentRestored

    def past(self, values: KeptValues, *, is_allowed: bool = True) -> PastRebuild:
        """As the plan has it; without copies where these are not allowed to be loaded."""
        rebuild = ExecutionId(self.restored.event_id)
        if not is_allowed:
            lost = dict.fromkeys(self.restored.anew, NOT_ALLOWED)
            return PastRebuild(anew=self.restored.anew, absent=self.restored.absent, unkept=lost)
        return PastRebuild(
            anew=self.restored.anew,
            absent=self.restored.absent,
            kept=values.groups(rebuild),
            unkept=values.unkept(rebuild),
        )
