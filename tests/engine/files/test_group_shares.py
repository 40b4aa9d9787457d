"""How a budget is divided: never more than there is, nothing left over, and the same for the same parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.files.group_summary import Salience, divide, weights

_PARTS = st.lists(st.tuples(st.integers(0, 50_000), st.floats(0.01, 1_000)), max_size=40)
_BUDGETS = st.integers(0, 100_000)


@given(_PARTS, _BUDGETS)
def test_shares_come_to_the_budget_or_to_what_is_needed_and_none_is_more_than_its_need(
    parts: list[tuple[int, float]], budget: int
) -> None:
    needs = [need for need, _ in parts]
    shares = divide(budget, needs, [weight for _, weight in parts])
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(shares) == min(budget, sum(needs))


@given(_PARTS, _BUDGETS)
def test_who_gets_less_than_it_needs_gets_as_much_for_its_weight_as_anybody(
    parts: list[tuple[int, float]], budget: int
) -> None:
    shares = divide(budget, [need for need, _ in parts], [weight for _, weight in parts])
    for (need, weight), share in zip(parts, shares, strict=True):
        if share < need:
            assert all(other <= (share + 1.001) / weight * heavy + 1.001 for (_, heavy), other in zip(parts, shares))  # noqa: B905


@given(st.permutations(range(6)), st.integers(0, 3_000))
def test_parts_of_different_weight_get_the_same_in_any_order(order: list[int], budget: int) -> None:
    needs, heavy = [100, 1000, 400, 30, 700, 900], [1.0, 2.0, 3.5, 4.25, 0.5, 9.0]
    straight = divide(budget, needs, heavy)
    assert divide(budget, [needs[i] for i in order], [heavy[i] for i in order]) == [straight[i] for i in order]


def test_a_pin_counts_more_than_a_change_and_a_change_more_than_a_use() -> None:
    pinned, changed, used, plain = (
        Salience(pinned=True),
        Salience(changed=True),
        Salience(touched=9),
        Salience(touched=2),
    )
    heavy = weights([pinned, changed, used, plain], [100] * 4)
    assert heavy == sorted(heavy, reverse=True)
    assert len(set(heavy)) == 4


def test_of_two_that_are_alike_the_larger_weighs_more() -> None:
    small, large = weights([Salience(), Salience()], [10, 10_000])
    assert small < large
