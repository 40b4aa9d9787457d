"""What is drawn below goes when something is written, and stands below it again."""

from __future__ import annotations

import sys
from unittest import mock

import pyte

from engine.cli.terminal.rendering import Fragment
from engine.cli.terminal.screen import Screen


class Emulated:
    """Standard output that is a terminal."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(20, 8)
        self._stream = pyte.Stream(self.screen)
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)
        self._stream.feed(text.replace("\n", "\r\n"))

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]


def on_terminal(*, moves: bool = True) -> tuple[Screen, Emulated]:
    emulated = Emulated()
    with mock.patch.object(sys, "stdout", emulated):
        return Screen(in_colour=False, moves=moves), emulated


def test_lines_below_are_drawn_again_below_what_is_written_and_go_in_the_end() -> None:
    screen, emulated = on_terminal()
    below: list[list[Fragment]] = [[("", "tail")], [("quiet", "spinner 1")]]
    screen.write([("", "first\n")])
    with screen.below(lambda: below):
        assert emulated.lines == ["first", "tail", "spinner 1"]
        screen.write([("", "second\n")])
        assert emulated.lines == ["first", "second", "tail", "spinner 1"]
        below[:] = [[("", "spinner 2")]]
        screen.refresh()
        assert emulated.lines == ["first", "second", "spinner 2"]
        count = len(emulated.written)
        screen.refresh()
        assert len(emulated.written) == count
    assert emulated.lines == ["first", "second"]
    screen.write([("", "third\n")])
    assert emulated.lines == ["first", "second", "third"]


def test_nothing_is_drawn_in_the_middle_of_a_line_or_where_the_cursor_cannot_move() -> None:
    screen, emulated = on_terminal()
    with screen.below(lambda: [[("", "spinner")]]):
        screen.write([("", "half")])
        assert emulated.lines == ["half"]
        screen.write([("", " whole\n")])
        assert emulated.lines == ["half whole", "spinner"]
    screen, emulated = on_terminal(moves=False)
    with screen.below(lambda: [[("", "spinner")]]):
        screen.write([("", "text\n")])
    assert emulated.written == ["text\n"]
