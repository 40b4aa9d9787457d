"""What a plan is told of kept values: those of one execution, and those of a rebuild, with the names it had no copy of.

Pure. Used by `replay`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from ..events.execution import ValuesKept
from ..events.session import EnvironmentRestored
from ..ids import Seq
from ..ports import PastRebuild, PastValues


class Rebuild(Struct):
    """A rebuild that had no copy of some names, and what was kept of them after it."""

    restored: EnvironmentRestored
    kept: list[ValuesKept] = field(default_factory=list[ValuesKept])

    def past(self, dropped_before: Seq) -> PastRebuild:
        """As the plan has it."""
        return PastRebuild(
            anew=self.restored.anew,
            absent=self.restored.absent,
            kept=past_values(self.kept, dropped_before),
            unkept=unkept(self.kept),
        )


def past_values(kept: Sequence[ValuesKept], dropped_before: Seq) -> tuple[PastValues, ...]:
    """The groups; what was kept before that place on the log has been dropped."""
    return tuple(
        PastValues(
            names=group.names,
            content=group.content,
            dropped=each.seq < dropped_before,
            size=group.size,
            data=group.data,
        )
        for each in kept
        for group in each.groups
    )


def unkept(kept: Sequence[ValuesKept]) -> dict[str, str]:
    """The names without a copy, each with the reason."""
    return {name: reason for each in kept for name, reason in each.unkept.items()}
