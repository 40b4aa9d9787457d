"""Which checkpoints to take and to keep, and of which history one is the state.

A checkpoint holds what a namespace has gone through: executions and ticks, in order. That is its *trail*. It serves a
plan whose steps begin with the same trail, on whatever branch: what is left out there, or ran otherwise, is another
execution or none. Pure; must not know what a checkpoint is made of. Used by `environment.connected_environment` and
`sessions.live_environment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from ..ids import ExecutionId
from ..ports import PastExecution, PastLooks, PastRebuild, PastStep, PastTick

NO_STEPS: Final = 0
"""The trail of an empty namespace."""
NEWEST: Final = 16
"""So many checkpoints are kept whatever their distance."""
_TIMES_COST: Final = 10
"""A checkpoint is due when so many times as long as one takes has gone by."""


def after_execution(trail: int, execution_id: ExecutionId) -> int:
    """The trail of a namespace that has lived through this execution, too."""
    return hash((trail, execution_id))


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
        case PastExecution(request=request):
            return after_execution(trail, request.execution_id)
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
