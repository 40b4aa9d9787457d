"""Shortening what does not fit: the fair limit, and what is left of a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.context.tail.prompt import fair_limit, shortened


@given(st.lists(st.integers(0, 5_000)), st.integers(-100, 20_000))
def test_the_limit_makes_all_fit_wherever_any_limit_does(costs: list[int], room: int) -> None:
    limit = fair_limit(costs, room)
    assert limit >= 32
    assert limit & (limit - 1) == 0
    smallest = sum(min(cost, 32) for cost in costs)
    assert sum(min(cost, limit) for cost in costs) <= max(room, smallest)
    if limit < max(costs, default=0):
        assert sum(min(cost, 2 * limit) for cost in costs) > room


@given(st.text(), st.floats(0, 1))
def test_a_shortened_text_has_its_ends_and_says_what_is_missing(text: str, share: float) -> None:
    head, _, rest = shortened(text, share).partition("\n... ")
    missing, _, tail = rest.partition(" left out, because the context is full ...\n")
    if "\n... " not in text:
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) + int(missing.split()[0]) == len(text)
        assert len(head) + len(tail) == int(len(text) * share)
