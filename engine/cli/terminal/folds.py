"""What a model reads, as a person is shown it: the beginning, the end, and a line that says how to see the rest.

The beginning is shown as it comes; of what follows only the last lines are kept here, because the whole result is on
the timeline. Pure. Used by `transcript`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ...core.text import plural
from .fragments import Fragment, indented
from .wrapping import Line, joined, lines_of, wrap_line

HEAD_LINES: Final = 8
TAIL_LINES: Final = 3
"""With the line between them a folded result has 12 lines."""
_SHOWN_LINES: Final = HEAD_LINES + 1 + TAIL_LINES


class Fold:
    """The result of one statement, or a part of it.

    Args:
        statement: its number; None where there is none to open.
        indent: before each line.
        width: cells of a line; None where nothing is wrapped.
    """

    def __init__(self, statement: int | None, indent: str, width: int | None) -> None:
        self.statement = statement
        self._indent = indent
        self._width = width
        self._count = 0
        self._last: deque[Line] = deque(maxlen=_SHOWN_LINES - HEAD_LINES)
        self._line: Line = []
        self.is_folded = False
        """Whether lines were left out, once it has ended."""

    @property
    def open_line(self) -> Line:
        """The line that has not ended yet, as it may be shown meanwhile."""
        return self._fitted(self._line)[-1] if self._line else []

    def add(self, fragments: list[Fragment]) -> list[Fragment]:
        """What is to be shown now."""
        *whole, self._line = [*lines_of([*self._line, *fragments, ("", "\n")])] or [[]]
        if fragments and fragments[-1][1].endswith("\n"):
            whole, self._line = [*whole, *([self._line] if self._line else [])], []
        return self._take(whole)

    def end(self) -> list[Fragment]:
        """The rest: what was kept, and before it how much is left out."""
        shown = self._take([self._line] if self._line else [])
        self._line = []
        hidden = self._count - HEAD_LINES
        if hidden > len(self._last):
            self.is_folded = True
            tail = list(self._last)[-TAIL_LINES:]
            return [*shown, ("quiet", self._indent + self._said(hidden - len(tail)) + "\n"), *joined(tail)]
        return [*shown, *joined(self._last)]

    def _said(self, count: int) -> str:
        opened = "" if self.statement is None else f": Ctrl-O or /open {self.statement}"
        return f"... {count:,} more {plural(count, 'line')}{opened}"

    def _take(self, lines: list[Line]) -> list[Fragment]:
        shown: list[Line] = []
        for line in (part for whole in lines for part in self._fitted(whole)):
            self._count += 1
            if self._count <= HEAD_LINES:
                shown.append(line)
            else:
                self._last.append(line)
        return joined(shown)

    def _fitted(self, line: Line) -> list[Line]:
        whole = lines_of(indented([*line, ("", "\n")], self._indent, at_start=True)) or [[]]
        return whole if self._width is None else wrap_line(whole[0], self._width)
