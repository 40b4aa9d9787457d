"""Output while it arrives: pieces of any size, and folds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.terminal.rendering import painted
from engine.cli.terminal.streams import HEAD_LINES, TAIL_LINES, Fold, Printed
from engine.core.text import as_printed


def pieces_shown(*pieces: str) -> list[str]:
    printed = Printed()
    return [*map(printed.add, pieces), printed.end()]


def test_plain_text_is_shown_at_once_in_any_pieces() -> None:
    assert pieces_shown("a", "b\nc", "d\n", "e") == ["a", "b\nc", "d\n", "e", ""]


def test_line_with_a_control_character_is_shown_when_it_ends() -> None:
    assert pieces_shown("\x1b[3", "1mred\x1b", "[0m!\nnext") == ["", "", "red!\nnext", ""]
    assert pieces_shown("10%\r", "20%\r", "done\n") == ["", "", "done\n", ""]


def test_overwritten_line_is_shown_once_more() -> None:
    assert pieces_shown("10%", "\r20%\n") == ["10%", "\n20%\n", ""]
    assert pieces_shown("ab", "\x08c") == ["ab", "", "\nac"]
    assert pieces_shown("ab", "\x1b[0m", "c\n") == ["ab", "", "c\n", ""]


@given(st.text(alphabet="ab\n\t\x1b[31m\x07]\u202e", max_size=60), st.integers(1, 7))
def test_pieces_without_overwriting_equal_the_lines_on_a_screen(text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    joined = "".join(pieces_shown(*pieces))
    assert [line for line in joined.split("\n") if line] == [line for line in as_printed(text).split("\n") if line]


@pytest.mark.parametrize("text", ["\r\n" * 3, "a\rb\r\nc", "\x08" * 5])
def test_no_control_character_is_left_however_it_is_cut(text: str) -> None:
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert all(char.isprintable() or char == "\n" for char in "".join(pieces_shown(*pieces)))


def folded(text: str, size: int, width: int | None = None) -> str:
    fold = Fold(7, "  ", width)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    shown = [fragment for piece in pieces for fragment in fold.add([("", piece)])]
    return painted([*shown, *fold.end()], in_colour=False)


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(count))


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("count", [0, 1, HEAD_LINES, HEAD_LINES + 1 + TAIL_LINES])
def test_a_short_result_is_whole(count: int, size: int) -> None:
    assert folded(lines(count), size) == "".join(f"  line {number}\n" for number in range(count))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_long_result_has_twelve_lines_and_says_how_to_open(size: int) -> None:
    shown = folded(lines(60), size).splitlines()
    assert len(shown) == 12
    assert shown[7:10] == ["  line 7", "  ... 49 more lines: Ctrl-O or /open 7", "  line 57"]
    assert shown[-1] == "  line 59"


def test_lines_are_counted_as_the_terminal_shows_them() -> None:
    shown = folded("word " * 400, 10_000, width=40).splitlines()
    assert len(shown) == 12
    assert all(len(line) <= 40 for line in shown)


def test_an_empty_line_stays() -> None:
    assert folded("a\n\nb\n", 10) == "  a\n\n  b\n"


def test_unfinished_line_is_visible() -> None:
    fold = Fold(1, "  ", 40)
    assert fold.add([("", "one\ntw")]) == [("", "  "), ("", "one"), ("", "\n")]
    assert fold.open_line == [("", "  "), ("", "tw")]
    fold.add([("", "o\n")])
    assert fold.open_line == []
