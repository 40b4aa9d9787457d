"""Wrapped lines fit, say the same, and go on below where they began."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.cli.terminal.rendering import divided_at, lines_of, painted, wrap_line, wrapped


def text_of(text: str, width: int, hang: str = "") -> str:
    return painted(wrapped([("", text)], width, hang), in_colour=False)


def test_a_line_is_wrapped_between_words_below_its_margin() -> None:
    assert text_of("    some words that are long\nnext\n", 20) == "    some words that\n    are long\nnext\n"
    assert text_of("[some words that are long]\n", 16, " ") == "[some words that\n are long]\n"


def test_a_word_that_is_too_long_is_divided() -> None:
    assert text_of("a " + "x" * 30 + "\n", 20) == "a\n" + "x" * 20 + "\n" + "x" * 10 + "\n"


def test_tabs_end_where_a_terminal_ends_them() -> None:
    assert text_of("    1\tone\n\ttwo\n", 40) == "    1   one\n        two\n"


def test_without_a_width_nothing_changes() -> None:
    fragments = [("quiet", "a\tb " * 90)]
    assert wrapped(fragments, None) == fragments


@given(st.text(alphabet="ab \u4e2d\t", max_size=200), st.integers(min_value=12, max_value=60))
def test_every_part_fits_and_no_word_is_lost(text: str, width: int) -> None:
    parts = ["".join(piece for _, piece in part) for part in wrap_line([("", text), ("code", text)], width)]
    assert all(cell_len(part.rstrip()) <= width for part in parts)
    assert re.sub(r"\s", "", "".join(parts)) == re.sub(r"\s", "", text + text)


@given(st.text(alphabet="ab ,\u4e2d", min_size=1, max_size=200), st.integers(min_value=20, max_value=60))
def test_a_statement_is_divided_without_losing_anything(text: str, width: int) -> None:
    parts = list(divided_at(text, width))
    assert all(cell_len(part) <= width for part in parts)
    assert re.sub("\\s", "", "".join(part.removeprefix("↪ ") for part in parts)) == re.sub(r"\s", "", text)


def test_lines_of_keeps_empty_lines() -> None:
    assert lines_of([("a", "x\n\n"), ("b", "y")]) == [[("a", "x")], [], [("b", "y")]]
