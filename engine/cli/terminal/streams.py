"""Output that is still arriving: what can be shown now, how it is folded, and where on the screen it goes.

Pure, except for its state. Owned by a transcript; the output of one prompt uses `Printed` too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ...core.text import as_printed, plural, visible
from .rendering import Fragment, Line, indented, joined, lines_of, wrap_line


class Printed:
    """What can be shown of one output stream of a running statement.

    A statement must not control the terminal: colours are removed, other control characters become visible, and of an
    overwritten line the last text remains (`text.as_printed`). That is known only for a complete line. So a line is
    shown in pieces while it has no control character, and otherwise when it ends.
    """

    def __init__(self) -> None:
        self._line = ""
        """The last line as it arrived, without its end."""
        self._shown = ""
        """The part of it that was shown."""

    def add(self, piece: str) -> str:
        """Take a piece, and return what can be shown now."""
        whole, newline, self._line = (self._line + piece).rpartition("\n")
        text = self._rest(whole + newline) if newline else ""
        if visible(self._line) == self._line:
            text += self._line[len(self._shown) :]
            self._shown = self._line
        return text

    def end(self) -> str:
        """Return the rest, when nothing more arrives."""
        text, self._line = self._rest(self._line), ""
        return text

    def _rest(self, text: str) -> str:
        """Return the unshown part of a text that begins with the last line."""
        seen, shown, self._shown = as_printed(text), self._shown, ""
        # If the shown part was overwritten, the line is shown again.
        return seen.removeprefix(shown) if seen.startswith(shown) else "\n" + seen


HEAD_LINES: Final = 8
TAIL_LINES: Final = 3
"""With the line between them, a folded result has 12 lines."""
_SHOWN_LINES: Final = HEAD_LINES + 1 + TAIL_LINES


class Fold:
    """The result of one statement, shortened to its beginning and its end.

    A line between them says how to open the rest. The beginning is shown as it arrives. Of what follows, only the last
    lines are stored, because the whole result is on the timeline.

    Args:
        statement: its number; None if it cannot be opened.
        indent: goes before each line.
        width: cells of a line; None for no wrapping.
    """

    def __init__(self, statement: int | None, indent: str, width: int | None) -> None:
        self.statement = statement
        self._indent = indent
        self._width = width
        self._count = 0
        self._last: deque[Line] = deque(maxlen=_SHOWN_LINES - HEAD_LINES)
        self._line: Line = []
        self.is_folded = False
        """Whether lines were left out; valid after `end`."""

    @property
    def open_line(self) -> Line:
        """The line that has not ended yet, as it can be shown meanwhile."""
        return self._fitted(self._line)[-1] if self._line else []

    def add(self, fragments: list[Fragment]) -> list[Fragment]:
        """Take fragments, and return what to show now."""
        *whole, self._line = [*lines_of([*self._line, *fragments, ("", "\n")])] or [[]]
        if fragments and fragments[-1][1].endswith("\n"):
            whole, self._line = [*whole, *([self._line] if self._line else [])], []
        return self._take(whole)

    def end(self) -> list[Fragment]:
        """Return the stored lines, after a count of those left out."""
        shown = self._take([self._line] if self._line else [])
        self._line = []
        hidden = self._count - HEAD_LINES
        if hidden > len(self._last):
            self.is_folded = True
            tail = list(self._last)[-TAIL_LINES:]
            return [*shown, ("quiet", self._indent + self._left_out_line(hidden - len(tail)) + "\n"), *joined(tail)]
        return [*shown, *joined(self._last)]

    def _left_out_line(self, count: int) -> str:
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


class Layout:
    """Where the next text goes: whether a line has begun, and the last block.

    An empty line separates blocks. It is written before the second block, so that the output does not end with one.
    """

    def __init__(self) -> None:
        self.at_start = True
        """Whether the next character begins a line."""
        self._is_begun = False
        self._block: object = None

    def begin(self) -> None:
        """Reset: the user has typed, and the screen is at the start of a line."""
        self.at_start, self._is_begun, self._block = True, False, None

    def leave(self) -> None:
        """Make the next text a block of its own."""
        self._block = None

    def finish_line(self) -> list[Fragment]:
        """Return what moves the screen to the start of a line."""
        return self.placed([] if self.at_start else [("", "\n")])

    def whole(self, block: object, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Return the text of `block`, with the separator before it."""
        return [*self.enter(block), *self.placed(fragments)]

    def enter(self, block: object) -> list[Fragment]:
        """Return the separator between the last block and this one."""
        if block == self._block:
            return []
        self._block = block
        gap = "" if not self._is_begun else "\n" if self.at_start else "\n\n"
        return self.placed([("", gap)])

    def placed(self, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Note a text that continues at the current position, and return it."""
        result = [(style, text) for style, text in fragments if text]
        if result:
            self.at_start, self._is_begun = result[-1][1].endswith("\n"), True
        return result
