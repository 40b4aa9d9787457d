"""What of a stream may be shown while more is on the way: pieces of any size add up to what a screen shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.terminal.screen import Printed
from engine.core.text import as_printed


def shown(*pieces: str) -> list[str]:
    printed = Printed()
    return [*map(printed.add, pieces), printed.end()]


def test_plain_text_is_shown_at_once_in_whatever_pieces_it_comes() -> None:
    assert shown("a", "b\nc", "d\n", "e") == ["a", "b\nc", "d\n", "e", ""]


def test_a_line_with_a_control_character_is_shown_when_it_ends() -> None:
    assert shown("\x1b[3", "1mred\x1b", "[0m!\nnext") == ["", "", "red!\nnext", ""]
    assert shown("10%\r", "20%\r", "done\n") == ["", "", "done\n", ""]


def test_a_line_that_was_shown_and_is_then_overwritten_is_shown_once_more() -> None:
    assert shown("10%", "\r20%\n") == ["10%", "\n20%\n", ""]
    assert shown("ab", "\x08c") == ["ab", "", "\nac"]
    assert shown("ab", "\x1b[0m", "c\n") == ["ab", "", "c\n", ""]


@given(st.text(alphabet="ab\n\t\x1b[31m\x07]\u202e", max_size=60), st.integers(1, 7))
def test_without_overwriting_all_pieces_are_the_lines_as_a_screen_shows_them(text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    joined = "".join(shown(*pieces))
    assert [line for line in joined.split("\n") if line] == [line for line in as_printed(text).split("\n") if line]


@pytest.mark.parametrize("text", ["\r\n" * 3, "a\rb\r\nc", "\x08" * 5])
def test_no_control_character_is_left_however_it_is_cut(text: str) -> None:
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert all(char.isprintable() or char == "\n" for char in "".join(shown(*pieces)))
