"""Which checkpoints stay, by plain values."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.checkpoints import MOST, NEWEST, surplus


def kept_after(seconds: list[float]) -> dict[int, float]:
    """The checkpoints after statements that ran so long, each with what it saves now."""
    kept = dict[int, float]()
    for number, each in enumerate(seconds, 1):
        kept[number] = each
        if (dropped := surplus(kept)) is not None:
            after = next(other for other in kept if other > dropped)
            kept[after] += kept.pop(dropped)
    return kept


@given(st.lists(st.floats(0, 1000), max_size=100))
def test_newest_checkpoints_stay_and_nothing_saved_is_forgotten(seconds: list[float]) -> None:
    kept = kept_after(seconds)
    assert len(kept) == min(len(seconds), MOST)
    assert set(range(1, len(seconds) + 1)[-NEWEST:]) <= set(kept)
    assert sum(kept.values()) == pytest.approx(sum(seconds))


def test_checkpoints_after_slow_statements_stay() -> None:
    slow = {3: 600.0, 40: 60.0, 77: 30.0}
    assert set(slow) <= set(kept_after([slow.get(number, 0.2) for number in range(1, 101)]))


def test_checkpoints_of_equal_worth_thin_out_with_age() -> None:
    numbers = list(kept_after([0.3] * 200))
    gaps = [after - before for before, after in pairwise(numbers)]
    assert gaps[-NEWEST + 1 :] == [1] * (NEWEST - 1)
    assert max(gaps[: MOST // 2]) > max(gaps[MOST // 2 :])
    assert numbers[0] < 100
