"""Which checkpoints to take and keep, and which plans each of them serves.

A checkpoint is the state after a sequence of executions and ticks, its *trail*. It serves every plan that begins with
the same trail, on any branch: an omitted or changed statement is a different execution, or none, and so gives another
trail. Pure; must not know what a checkpoint is made of. Used by `runtime.worker_environment` and
`session.live_environment`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from ..core.execution import ExecutionStatus
from ..core.ids import ExecutionId
from .comparison import bound_names
from .past import PastExecution, PastLooks, PastRebuild, PastRevision, PastStep, PastTick, RestorePlan
from .statements import RunOutcome

NO_STEPS: Final = 0
"""The trail of an empty namespace."""
NEWEST: Final = 16
"""How many of the newest checkpoints are always kept."""
_TIMES_COST: Final = 10
"""A checkpoint is due when statements have run this many times as long as it takes."""


def after_outcome(trail: int, execution_id: ExecutionId, outcome: RunOutcome) -> int:
    """Return the trail after an execution."""
    return _after_execution(trail, execution_id, outcome.status, bound_names(outcome.diff), outcome.diff.deleted)


def _after_execution(
    trail: int, execution_id: ExecutionId, status: ExecutionStatus, bound: Collection[str], unbound: Collection[str]
) -> int:
    # A stopped execution that left nothing counts as not begun, because the log cannot always tell the two apart.
    has_passed = status in ("ok", "error") or bound or unbound
    return hash((trail, execution_id)) if has_passed else trail


def after_tick(trail: int, round_id: int, now: float) -> int:
    """Return the trail after a tick that found running nodes."""
    return hash((trail, round_id, now))


def after_rebuild(trail: int, anew: Sequence[str], absent: Sequence[str]) -> int:
    """Return the trail after a rebuild. One that had copies of all names does not change it."""
    return hash((trail, tuple(anew), tuple(absent))) if anew or absent else trail


def trails(steps: Sequence[PastStep]) -> Sequence[int]:
    """Return the trail before the first step and after each step. O(steps)."""
    return list(accumulate(steps, _after, initial=NO_STEPS))


def _after(trail: int, step: PastStep) -> int:
    match step:
        case PastExecution(request=request, status=status, bound=bound, unbound=unbound):
            return _after_execution(trail, request.execution_id, status, bound, unbound)
        case PastTick(round_id=round_id, now=now):
            return after_tick(trail, round_id, now)
        case PastRebuild(anew=anew, absent=absent):
            return after_rebuild(trail, anew, absent)
        case PastLooks():
            return trail


def given(steps: Sequence[PastStep]) -> int:
    """Return how many steps may come from a checkpoint: those before the first whose outcome will be compared."""
    asked = (
        position
        for position, step in enumerate(steps)
        if isinstance(step, PastExecution) and step.again and step.record is None
    )
    return next(asked, len(steps))


def rest_of(plan: RestorePlan, over: int) -> RestorePlan:
    """Return the plan that is left after the first `over` steps, which come from a checkpoint.

    A look that finds nothing new is not recorded with its step, so the rest begins with what was seen last.
    """
    rest = plan.steps[over:]
    newest = {look.path: look for step in plan.steps[:over] for look in _seen(step)} if rest else {}
    told = (PastLooks(revisions=tuple(newest.values())),) if newest else ()
    whole_from = None if plan.whole_from is None else plan.whole_from - over + len(told)
    return replace(plan, steps=(*told, *rest), behind=plan.steps[:over], whole_from=whole_from)


def _seen(step: PastStep) -> Sequence[PastRevision]:
    return () if isinstance(step, PastRebuild) else step.revisions or ()


def is_due(elapsed: float, cost: float, *, acted: bool) -> bool:
    """Return whether to take a checkpoint after a statement.

    Args:
        elapsed: seconds that statements have run since the last checkpoint.
        cost: estimated seconds that a checkpoint takes.
        acted: the statement did something outside, so a re-run may not restore its state.
    """
    return acted or elapsed >= _TIMES_COST * cost


def surplus(taken: Sequence[int]) -> Sequence[int]:
    """Return the checkpoints to drop, of those taken, by their ascending numbers.

    The newest stay. Distances from the newest are divided into ranges, each twice as long as the one before, and each
    range keeps its oldest checkpoint, which thereby grows old enough for the next range.
    """
    if not taken:
        return ()
    places = set[int]()
    dropped = list[int]()
    for number in taken[:-NEWEST]:
        place = (taken[-1] - number).bit_length()
        if place in places:
            dropped.append(number)
        places.add(place)
    return dropped
