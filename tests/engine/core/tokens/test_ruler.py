"""The ruler agrees with adding up piece by piece, and counts only what it is asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import Ruler
from tests.support.examples import examples

_COSTS = st.lists(st.integers(0, 9), max_size=400)


def _ruler(costs: list[int]) -> Ruler:
    return Ruler(len(costs), lambda index: "x" * costs[index], len)


@examples(3)
@given(_COSTS, st.data())
def test_sums_are_those_of_the_pieces(costs: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(costs)))
    end = data.draw(st.integers(0, len(costs)))
    assert _ruler(costs).between(start, end) == sum(costs[start:end])


@examples(3)
@given(_COSTS, st.data(), st.integers(0, 2000))
def test_down_reaches_as_far_as_the_budget_and_no_farther(costs: list[int], data: st.DataObject, budget: int) -> None:
    start = data.draw(st.integers(0, len(costs)))
    end = _ruler(costs).down(start, budget)
    assert sum(costs[start:end]) <= budget
    assert end == len(costs) or sum(costs[start : end + 1]) > budget


@examples(3)
@given(_COSTS, st.data(), st.integers(0, 2000))
def test_up_reaches_as_far_as_the_budget_and_no_farther(costs: list[int], data: st.DataObject, budget: int) -> None:
    end = data.draw(st.integers(0, len(costs)))
    start = _ruler(costs).up(end, budget)
    assert sum(costs[start:end]) <= budget
    assert start == 0 or sum(costs[start - 1 : end]) > budget


def test_only_the_neighbourhood_of_a_window_is_counted_and_only_once() -> None:
    counted: list[str] = []

    def count(piece: str) -> int:
        counted.append(piece)
        return 1

    ruler = Ruler(100_000, str, count)
    assert (ruler.up(50_000, 100), ruler.down(50_000, 100)) == (49_900, 50_100)
    assert len(counted) < 400
    before = len(counted)
    assert (ruler.up(50_000, 90), ruler.down(50_000, 90), ruler.between(49_950, 50_050)) == (49_910, 50_090, 100)
    assert len(counted) == before
