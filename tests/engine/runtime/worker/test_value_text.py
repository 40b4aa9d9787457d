"""The text of a value is its repr, but for long containers."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.runtime.worker.statements.output import MOST_ITEMS, value_text

LONG = list(range(3 * MOST_ITEMS))


@pytest.mark.parametrize(
    "value", [[], (1,), {1, 2}, frozenset({1}), {"a": [1, (2,)]}, "x" * 5_000, list(range(MOST_ITEMS)), Counter("aab")]
)
def test_a_short_value_is_its_repr(value: object) -> None:
    assert value_text(value) == repr(value)


def test_a_long_list_ends_in_an_ellipsis() -> None:
    assert value_text(LONG) == repr(LONG[:MOST_ITEMS])[:-1] + ", ...]"
    assert value_text(tuple(LONG)).endswith(", 999, ...)")
    assert value_text(dict.fromkeys(LONG)).endswith(", 999: None, ...}")
    assert value_text(frozenset(LONG)).endswith(", ...})")


def test_a_long_list_inside_of_another_value_is_elided() -> None:
    assert value_text({"rows": LONG, "n": (1,)}).endswith(", 999, ...], 'n': (1,)}")
    assert value_text([[LONG]]).endswith("999, ...]]]")


def test_a_class_of_its_own_decides_by_its_repr() -> None:
    class Rows(list[int]):
        def __repr__(self) -> str:
            return "rows"

    assert value_text(Rows(LONG)) == "rows"
    assert value_text([Rows(LONG)]) == "[rows]"


def test_a_value_that_holds_itself_has_a_text() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    assert value_text(loop) == "[1, [...]]"
    loop += LONG
    assert value_text(loop).startswith("[1, ")
