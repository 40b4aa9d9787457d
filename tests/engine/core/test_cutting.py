"""Cuts keep their limits and count what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.text import between, cut_end, cut_line, cut_line_from, cut_middle, left_out, more


@pytest.mark.parametrize("cutter", [cut_line, cut_end, cut_middle])
@given(text=st.text(), spare=st.integers(0, 5))
def test_what_fits_is_left_as_it_is(cutter: Callable[[str, int], str], text: str, spare: int) -> None:
    assert cutter(text, len(text) + spare or 1) == text


@given(st.text(min_size=2), st.data())
def test_a_line_is_cut_to_exactly_its_limit(text: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(text) - 1))
    assert cut_line(text, limit) == text[: limit - 1] + "…"


@given(st.text("ab", min_size=3), st.data())
def test_a_line_from_a_place_on_is_cut_at_both_ends_to_its_limit(text: str, data: st.DataObject) -> None:
    start, limit = data.draw(st.integers(-2, len(text) - 1)), data.draw(st.integers(2, len(text) + 2))
    cut = cut_line_from(text, start, limit)
    assert len(cut) <= limit
    assert cut.startswith("…") == (start > 0)
    assert cut.strip("…") == text[max(start, 0) :][: len(cut.strip("…"))]
    assert cut.endswith("…") == (not text.endswith(cut.removeprefix("…")))


def test_the_end_is_counted_in_a_line_of_its_own() -> None:
    assert cut_end("abcdef", 2) == "ab\n... 4 more characters"
    assert cut_end("abc", 2) == "ab\n... 1 more character"
    assert cut_end("abcdef", 2, "in the log") == "ab\n... 4 more characters in the log"


@given(st.text("ab", min_size=2), st.data())
def test_both_ends_are_kept_and_all_between_is_counted(text: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, len(text) - 1))
    head, _, rest = cut_middle(text, limit).partition("\n... ")
    count, _, tail = rest.partition(" left out ...\n")
    assert len(head) == len(tail) == limit // 2
    assert text == head + text[len(head) : len(text) - len(tail)] + tail
    assert int(count.split()[0]) == len(text) - len(head) - len(tail)


def test_the_words_for_what_is_missing() -> None:
    assert (left_out(1), left_out(2), left_out(3, "line")) == (
        "1 character left out",
        "2 characters left out",
        "3 lines left out",
    )
    assert (more(1, "handle"), more(2, "handle"), more(2)) == ("... 1 more handle", "... 2 more handles", "... 2 more")
    assert between(9, "because it is long") == "\n... 9 characters left out, because it is long ...\n"
