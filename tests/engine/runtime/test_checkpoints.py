"""Which checkpoints a session keeps, and what each saves, without processes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.ids import ExecutionId
from engine.runtime.checkpoints import MOST, NEWEST, Checkpoints


class Copy:
    """A copy that exists, without a process."""

    said = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def look(self) -> bool:
        return True

    def close(self) -> None: ...


def taken(seconds: list[float]) -> Checkpoints:
    """The checkpoints after statements that ran so long. Statement N has the process N."""
    checkpoints = Checkpoints(lambda: None)
    for number, each in enumerate(seconds, 1):
        checkpoints.ran(each)
        checkpoints.add(ExecutionId(f"ex_{number}"), number, cast(Any, Copy(number)), cast(Any, None))
    return checkpoints


def saved(checkpoints: Checkpoints) -> dict[int, float]:
    """The seconds that each saves, by the number of its statement."""
    members = checkpoints.members()
    newest = members[-1].pid if members else 0
    return {each.pid: each.worth * (newest - each.pid + 1) for each in members}


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=100))
def test_newest_checkpoints_stay_and_nothing_saved_is_forgotten(seconds: list[float]) -> None:
    kept = saved(taken(seconds))
    assert len(kept) == min(len(seconds), MOST)
    assert set(range(1, len(seconds) + 1)[-NEWEST:]) <= set(kept)
    assert sum(kept.values()) == pytest.approx(sum(seconds))


def test_checkpoints_after_slow_statements_stay() -> None:
    slow = {3: 600.0, 40: 60.0, 77: 30.0}
    assert set(slow) <= set(saved(taken([slow.get(number, 0.2) for number in range(1, 101)])))


def test_checkpoints_of_equal_worth_thin_out_with_age() -> None:
    numbers = list(saved(taken([0.3] * 200)))
    gaps = [after - before for before, after in pairwise(numbers)]
    assert gaps[-NEWEST + 1 :] == [1] * (NEWEST - 1)
    assert max(gaps[: MOST // 2]) > max(gaps[MOST // 2 :])
    assert numbers[0] < 100


def test_a_lost_checkpoint_costs_those_of_every_branch() -> None:
    checkpoints = taken([5.0, 1.0])
    first = checkpoints.serving((), [1])
    assert first is not None
    checkpoints.continued_from(first[0])
    checkpoints.ran(2.0)
    checkpoints.add(ExecutionId("ex_3"), 3, cast(Any, Copy(3)), cast(Any, None))
    checkpoints.drop_member(1, "lost")
    assert saved(checkpoints) == {2: 6.0, 3: 7.0}
    checkpoints.ran(4.0)
    checkpoints.drop_member(3, "lost")
    checkpoints.add(ExecutionId("ex_4"), 4, cast(Any, Copy(4)), cast(Any, None))
    assert saved(checkpoints) == {2: 6.0, 4: 11.0}
