"""Of a long result the beginning and the end are shown, and how the rest is opened."""

from __future__ import annotations

import pytest

from engine.cli.terminal.rendering import HEAD_LINES, TAIL_LINES, Fold, painted


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
def test_a_long_result_has_twelve_lines_and_says_how_to_open_it(size: int) -> None:
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


def test_a_line_that_has_not_ended_is_there_to_be_seen() -> None:
    fold = Fold(1, "  ", 40)
    assert fold.add([("", "one\ntw")]) == [("", "  "), ("", "one"), ("", "\n")]
    assert fold.open_line == [("", "  "), ("", "tw")]
    fold.add([("", "o\n")])
    assert fold.open_line == []
