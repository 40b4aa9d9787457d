"""The plan of a replay: that of a rebuild, in which somebody looks at what comes of some statements.

Pure. Used by `sessions.replaying`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from ..past_values import PastExecution, PastStep, RestorePlan


def observed_steps(plan: RestorePlan, first: int, last: int) -> Sequence[PastExecution]:
    """The executions of the statements `first` to `last` that a rebuild would run again."""
    return [step for step in plan.steps if _is_observed(step, first, last)]


def observing(plan: RestorePlan, first: int, last: int, *, answers: bool) -> RestorePlan:
    """The plan, in which the outcome of each of these goes to whoever compares, and none of them is left out.

    Without `answers` they are given none of those that are recorded.
    """
    places = [place for place, step in enumerate(plan.steps) if _is_observed(step, first, last)]
    steps = list(plan.steps)
    for place in places:
        step = steps[place]
        assert isinstance(step, PastExecution)
        steps[place] = replace(step, record=None, answers=step.answers if answers else ())
    return replace(plan, steps=tuple(steps), whole_from=places[0] if places else None)


def _is_observed(step: PastStep, first: int, last: int) -> TypeGuard[PastExecution]:
    return isinstance(step, PastExecution) and step.again and first <= step.request.index <= last
