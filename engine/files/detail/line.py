"""The lines of an excerpt: whole where they are of ordinary length, else a part that says what is cut.

Bounds what a single line can cost, whatever the file holds. Called by the level 0 renderer and by `Scroll`. Holds the
lines and not their revision, which holds the ruler over them: a cycle would keep every old revision in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.cutting import left_out
from ...core.tokens import Ruler
from ..paged_lines import PagedLines
from ..position import Place
from ..revision import Revision

LONGEST_WHOLE: Final = 8_000
"""Characters up to which a line is shown whole."""
_PART: Final = 2_000
"""Characters shown of a longer one, where the budget allows."""
_LEAD: Final = 4
"""Of what is shown of a cut line, one part in so many is before the column."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as excerpts show them: number and tab, text, newline."""

    lines: Sequence[str]
    first: int = 1

    def head(self, index: int) -> str:
        """Line `index`; of a long one its first `_PART` characters."""
        if self._length(index) <= LONGEST_WHOLE:
            return f"{self._gutter(index)}{self.lines[index]}\n"
        return self._part(index, 0, _PART)

    def at(self, place: Place) -> str:
        """The line at `place`; of a long one what is around the column."""
        if self._length(place.line) <= LONGEST_WHOLE:
            return self.head(place.line)
        return self._around(place, _PART)

    def fitting(self, place: Place, budget: int, count: Callable[[str], int]) -> str | None:
        """As much of the line at `place` as `budget` tokens hold; None where not even one character fits."""
        best = None
        low, high = 1, min(self._length(place.line), _PART)
        while low <= high:
            size = (low + high) // 2
            candidate = self._around(place, size)
            if count(candidate) <= budget:
                best, low = candidate, size + 1
            else:
                high = size - 1
        return best

    def _gutter(self, index: int) -> str:
        return f"{index + self.first}\t"

    def _length(self, index: int) -> int:
        return self.lines.length(index) if isinstance(self.lines, PagedLines) else len(self.lines[index])

    def _around(self, place: Place, size: int) -> str:
        length = self._length(place.line)
        return self._part(place.line, max(0, min(place.column - size // _LEAD, length - size)), size)

    def _part(self, index: int, start: int, size: int) -> str:
        lines = self.lines
        part = lines.part(index, start, size) if isinstance(lines, PagedLines) else lines[index][start : start + size]
        after = self._length(index) - start - size
        lead = f"[{left_out(start)}] " if start else ""
        trail = f" [{left_out(after)}]" if after else ""
        return f"{self._gutter(index)}{lead}{part}{trail}\n"


def measured(revision: Revision, count: Callable[[str], int]) -> tuple[Lines, Ruler]:
    """The revision's lines as excerpts show them, and the one ruler that measures their heads."""
    lines = Lines(revision.lines, revision.first_line)
    return lines, revision.ruler(lines.head, count)
