"""Which checkpoints to take and to keep, and of which history one is the state.

A checkpoint holds what a namespace has gone through: executions and ticks, in order. That is its *trail*. It serves a
plan whose steps begin with the same trail, on whatever branch: what is left out there, or ran otherwise, is another
execution or none. Pure; must not know what a checkpoint is made of. Used by `runtime.connected_environment` and
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
"""So many checkpoints are kept whatever their distance."""
_TIMES_COST: Final = 10
"""A checkpoint is due when so many times as long as one takes has gone by."""


def after_outcome(trail: int, execution_id: ExecutionId, outcome: RunOutcome) -> int:
    """The trail of a namespace that has gone through this execution, too."""
    return _after_execution(trail, execution_id, outcome.status, bound_names(outcome.diff), outcome.diff.deleted)


def _after_execution(
    trail: int, execution_id: ExecutionId, status: ExecutionStatus, bound: Collection[str], unbound: Collection[str]
) -> int:
    # One that was stopped and left nothing may as well not have begun, which is not always known.
    has_passed = status in ("ok", "error") or bound or unbound
    return hash((trail, execution_id)) if has_passed else trail


def after_tick(trail: int, round_id: int, now: float) -> int:
    """The same for a tick that found nodes at work."""
    return hash((trail, round_id, now))


def after_rebuild(trail: int, anew: Sequence[str], absent: Sequence[str]) -> int:
    """The same for a rebuild that had no copy of some names; one that had all leaves the trail as it is."""
    return hash((trail, tuple(anew), tuple(absent))) if anew or absent else trail


def trails(steps: Sequence[PastStep]) -> Sequence[int]:
    """The trail after so many of the steps; the first is that of none. O(steps)."""
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
    """How many steps may come from a checkpoint: those ahead of the first whose outcome somebody wants to look at."""
    asked = (
        position
        for position, step in enumerate(steps)
        if isinstance(step, PastExecution) and step.again and step.record is None
    )
    return next(asked, len(steps))


def rest_of(plan: RestorePlan, over: int) -> RestorePlan:
    """What is to run again after the first `over` steps, which come from a checkpoint.

    A look that brings nothing new is not recorded with its step, so those that run again are told what was seen before.
    """
    rest = plan.steps[over:]
    newest = {look.path: look for step in plan.steps[:over] for look in _seen(step)} if rest else {}
    told = (PastLooks(revisions=tuple(newest.values())),) if newest else ()
    whole_from = None if plan.whole_from is None else plan.whole_from - over + len(told)
    return replace(plan, steps=(*told, *rest), behind=plan.steps[:over], whole_from=whole_from)


def _seen(step: PastStep) -> Sequence[PastRevision]:
    return () if isinstance(step, PastRebuild) else step.revisions or ()


def is_due(elapsed: float, cost: float, *, acted: bool) -> bool:
    """Whether to take one after a statement.

    Args:
        elapsed: seconds that statements have run since the last one was taken.
        cost: seconds that one takes, as far as is known.
        acted: the statement did something outside, so that running it again would not bring its state back for sure.
    """
    return acted or elapsed >= _TIMES_COST * cost


def surplus(taken: Sequence[int]) -> Sequence[int]:
    """Of the checkpoints, by the numbers in which they were taken, ascending: those that are not to be kept.

    The newest stay, and of the older ones one in each distance from the newest that is twice the one before: the
    oldest there, so that it grows old enough for the next.
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
