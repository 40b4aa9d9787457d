"""Deltas: one exact summary line, and as much of the diff as the budget holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.changes import describe
from tests.support.examples import examples

_LINES = st.lists(
    st.one_of(st.sampled_from(["", " ", "}", "/", "x = 1"]), st.text("ab \t漢\r", max_size=12)), max_size=30
)


@pytest.mark.parametrize(
    ("before", "after", "summary"),
    [
        (["a"], ["b"], "1 line changed in f (+1 -1), first at line 1"),
        (["a", "b"], ["a"], "1 line changed in f (+0 -1), first at line 2"),
        ([], ["a", "b"], "2 lines changed in f (+2 -0), first at line 1"),
        (["a"], [], "1 line changed in f (+0 -1), first at line 1"),
        (list("abcdef"), list("aXYdeZ"), "3 lines changed in f (+3 -3), first at line 2"),
    ],
)
def test_the_summary_counts_lines(before: list[str], after: list[str], summary: str) -> None:
    assert describe("f", before, after, count, 1000)[0] == summary


def test_the_diff_is_unified_with_one_line_of_context() -> None:
    _, delta = describe("f", list("abcde"), list("abXde"), count, 1000)
    assert delta.splitlines()[1:] == ["@@ -2,3 +2,3 @@", " b", "-c", "+X", " d"]


@examples(3)
@given(_LINES, _LINES, st.integers(0, 200))
def test_a_delta_is_within_its_budget_or_the_summary_alone(before: list[str], after: list[str], budget: int) -> None:
    summary, delta = describe("f.py", before, after, count, budget)
    assert delta.startswith(summary)
    assert "\n" not in summary
    assert delta == summary or count(delta + "\n") <= budget


def test_a_change_of_line_ends_shows_no_line_twice_alike() -> None:
    said, delta = describe("f", ["a", "b"], ["a\r", "b\r"], count, 300)
    assert said == delta == "no line changed in f: its encoding, line ends or final newline did"
    assert describe("f", ["a", "b"], ["a\r", "c\r"], count, 300)[1].endswith(" a\n-b\n+c")


def test_a_cut_diff_says_so_and_long_lines_are_shortened() -> None:
    _, delta = describe("f", [], ["word " * 1000] * 50, count, 300)
    assert delta.endswith("\n...")
    assert max(map(len, delta.splitlines())) < 210
    assert count(delta + "\n") > 200
