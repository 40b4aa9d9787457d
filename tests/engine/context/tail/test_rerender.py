"""Which results are rendered anew: where that costs less than it saves, and never past the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context.tail.prompt import SHARE, Rewrite, choose_rewrites
from tests.support.examples import examples

ROOM = 10**9


def chosen(
    rewrites: dict[int, int], costs: list[int], kept: int, room: int = ROOM, *, always: bool = False
) -> list[int]:
    """The places of what is carried out."""
    found = choose_rewrites([Rewrite(*each) for each in rewrites.items()], costs, kept, room, at_any_price=always)
    return [rewrite.place for rewrite in found]


@pytest.mark.parametrize(("behind", "expected"), [(4_995, [1]), (5_000, []), (9_999, [])])
def test_a_break_has_to_save_more_than_a_fifth_of_the_tokens_behind_it(behind: int, expected: list[int]) -> None:
    costs = [10, 2_000, 5, behind - 5]
    assert chosen({1: 1_000}, costs, 4) == expected
    assert chosen({1: 1_000}, costs, 4, always=True) == [1]


def test_what_the_call_before_was_not_sent_is_changed_anyway() -> None:
    costs = [10, 2_000, 50_000]
    assert chosen({1: 1_990}, costs, 1) == [1]
    assert chosen({1: 1_990}, costs, 0) == [1]
    assert chosen({1: 1_990}, costs, 2) == [1], "nothing is behind it that was sent before"
    assert chosen({1: 1_990}, costs, 3) == []


def test_a_break_that_pays_changes_all_behind_it_and_several_pay_together() -> None:
    costs = [10, 1_000, 300, 1_000, 300, 1_000, 5_500]
    assert chosen({1: 500, 3: 500, 5: 500}, costs, 7) == [1, 3, 5]
    assert chosen({1: 500, 3: 500}, costs, 7) == []
    # Of several places that pay it is the one that saves most.
    costs = [10, 1_000, 3_000, 1_000, 3_000, 1_000, 1_000]
    assert chosen({1: 500, 3: 500, 5: 500}, costs, 7) == [5]
    assert chosen({1: 400, 3: 100, 5: 100}, costs, 7) == [3, 5]


def test_what_grows_is_changed_where_the_prefix_breaks_anyway_and_only_within_the_room() -> None:
    costs = [10, 100, 100, 1_000]
    assert chosen({1: 300, 2: 300}, costs, 0) == [1, 2]
    assert chosen({1: 300, 2: 300}, costs, 0, room=1_500) == [1]
    assert chosen({1: 300, 2: 300}, costs, 0, room=1_500, always=True) == [1]
    assert chosen({1: 300, 3: 10}, costs, 0, room=100) == [3]
    assert chosen({1: 300}, costs, 4) == []


COSTS = st.lists(st.integers(1, 60_000), min_size=1, max_size=30)


@examples(1)
@given(COSTS, st.data())
def test_nothing_is_paid_for_without_being_saved_and_nothing_passes_the_room(
    costs: list[int], data: st.DataObject
) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(costs) - 1))))
    rewrites = {place: data.draw(st.integers(1, 60_000)) for place in places}
    kept, room = data.draw(st.integers(0, len(costs))), data.draw(st.integers(-1_000, 2_000_000))
    found = chosen(rewrites, costs, kept, room)
    after = [rewrites[place] if place in found else cost for place, cost in enumerate(costs)]
    assert sum(after) <= max(room, sum(costs))
    early = [place for place in found if place < kept]
    if early:
        # What is saved in the cached part, against what of it has to be read anew.
        shrunk = [
            rewrites[place] if place >= early[0] and place in rewrites else cost for place, cost in enumerate(costs)
        ]
        assert SHARE * (sum(costs[:kept]) - sum(shrunk[:kept])) > sum(shrunk[early[0] + 1 : kept])
    assert set(found) >= {place for place in places if place >= kept and rewrites[place] <= costs[place]}
    assert chosen(rewrites, costs, kept, room) == found
