"""How many tokens a prompt may have, after refusals and answers."""

from __future__ import annotations

import pytest

from engine.session.model_calls.projector import Room


class _Reader:
    """A model with this window, as its provider lists it."""

    def __init__(self, window: int | None) -> None:
        self.window = window
        self.spec = "provider:openai:m"
        self.calls_tools = True


def room(window: int | None = 128_000) -> Room:
    return Room(128_000, _Reader(window))


def test_a_named_window_that_the_list_contradicts_widens_again() -> None:
    narrowed = room()
    whole = narrowed.budget
    assert narrowed.narrow(600, 1_000)
    assert narrowed.budget < 600
    for _ in range(20):
        narrowed.answered(400, 400)
    assert narrowed.budget == whole


def test_a_named_window_stands_if_nothing_contradicts_it() -> None:
    narrowed = room(None)
    assert narrowed.narrow(5_000, 4_096)
    budget = narrowed.budget
    narrowed.answered(3_000, 3_000)
    assert narrowed.budget == budget
    narrowed.answered(3_000, 5_000)
    assert narrowed.budget > budget


@pytest.mark.parametrize("counted", [0, 10**9])
def test_an_absurd_count_narrows_a_named_window_by_no_more_than_its_bound(counted: int) -> None:
    narrowed = room()
    narrowed.answered(1, counted)
    assert narrowed.narrow(60_000, 100_000)
    assert narrowed.budget >= 15_000
