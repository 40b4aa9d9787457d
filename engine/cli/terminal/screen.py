"""Writes fragments to standard output, in colours where that is a terminal that has them; the only module that does.

Below what is written for good it can draw lines that change: what has begun to come, and what is waited for. These are
erased and drawn again with each write, in one piece, so that nothing flickers. Must not know what it writes. A reader
that has left is an OSError, as from the operating system.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from .fragments import Fragment, painted

Below = Callable[[], Sequence[list[Fragment]]]
"""The lines to be drawn below all others, each of which fits the terminal."""


def _nothing() -> Sequence[list[Fragment]]:
    return ()


class Screen:
    """Standard output, as it is when this is made: without secrets.

    Args:
        in_colour: whether styles are shown.
        moves: whether the cursor can be moved, so that lines can be drawn again.
    """

    def __init__(self, in_colour: bool, moves: bool = False) -> None:
        self._in_colour = in_colour
        self._moves = moves
        self._stream = sys.stdout
        self._below: Below = _nothing
        self._drawn = ""
        self._at_start = True

    def write(self, fragments: Iterable[Fragment]) -> None:
        """Writes at once; blocks while nobody reads. Raises OSError."""
        text = painted(fragments, self._in_colour)
        if text:
            self._at_start = text.endswith("\n")
            self._put(text)

    def refresh(self) -> None:
        """Draws the lines below again, as they are now. Raises OSError."""
        self._put("")

    @contextmanager
    def below(self, lines: Below) -> Generator[None]:
        """Draws these lines below all others, as long as this lasts."""
        before, self._below = self._below, lines
        try:
            self.refresh()
            yield
        finally:
            self._below = before
            self.refresh()

    def _put(self, text: str) -> None:
        lines = self._below() if self._moves and self._at_start else ()
        drawn = "\n".join(painted(line, self._in_colour) for line in lines)
        if not text and drawn == self._drawn:
            return
        up = self._drawn.count("\n")
        erased = ("\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J") if self._drawn else ""
        self._drawn = drawn
        self._stream.write(erased + text + drawn)
        self._stream.flush()

    @property
    def lines(self) -> int:
        """How many lines the terminal shows; 24 where it does not say."""
        return shutil.get_terminal_size().lines

    @property
    def columns(self) -> int | None:
        """How many cells a line of the terminal has; None where the output is no terminal."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None


def can_move(environ: Mapping[str, str]) -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb"


def shows_colours(environ: Mapping[str, str]) -> bool:
    """Whether standard output shows colours: a terminal that can, and the user has nothing against it (NO_COLOR)."""
    return can_move(environ) and not environ.get("NO_COLOR")
