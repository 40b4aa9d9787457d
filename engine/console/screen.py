"""Writes fragments to standard output, in colours where that is a terminal that has them; the only module that does.

Must not know what it writes. A reader that has left is an OSError, as from the operating system.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping

from .fragments import Fragment, painted


class Screen:
    """Standard output, as it is when this is made: without secrets."""

    def __init__(self, in_colour: bool) -> None:
        self._in_colour = in_colour
        self._stream = sys.stdout

    def write(self, fragments: Iterable[Fragment]) -> None:
        """Writes at once; blocks while nobody reads. Raises OSError."""
        text = painted(fragments, self._in_colour)
        if text:
            self._stream.write(text)
            self._stream.flush()

    @property
    def lines(self) -> int:
        """How many lines the terminal shows; 24 where it does not say."""
        return shutil.get_terminal_size().lines

    @property
    def columns(self) -> int | None:
        """How many cells a line of the terminal has; None where the output is no terminal."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None


def shows_colours(environ: Mapping[str, str]) -> bool:
    """Whether standard output shows colours: a terminal that can, and the user has nothing against it (NO_COLOR)."""
    return sys.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
