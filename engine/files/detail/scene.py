"""The input of a render, and the parts that levels share.

Pure. Must not know handles. Made by ViewHandle and by globs, read by the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.text import DOTS, broken_word, left_out
from ...core.tokens import Ruler
from ..changes import change_between, size_of
from ..document import Place
from ..outline.model import Outline
from ..paging import PagedLines, PageLostError
from ..rendered import RenderedView
from ..revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A revision at a place, within a budget.

    `budget` is in tokens, at least 1, and `count` counts exactly. `last_shown` is the revision that the model read last
    of this node, or None, and `shown_in` the index of the statement that showed it, 0 if unknown. `outline` is the
    revision's, for levels that need one. `summary` is a model's text about the revision, or empty. `sparing`: nobody
    chose the budget, so levels 1 and 2 keep to their shares of the text.
    """

    revision: Revision
    place: Place
    budget: int
    count: Callable[[str], int]
    title: str = ""
    last_shown: Revision | None = None
    shown_in: int = 0
    outline: Outline | None = None
    summary: str = ""
    sparing: bool = False


def one_line(
    candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True
) -> RenderedView:
    """Return the first line that fits, else "...", else nothing.

    Candidates have no newline.

    Args:
        whole: whether the first candidate is complete.
    """
    for candidate in (*candidates, DOTS):
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole and candidate == candidates[0])
    return RenderedView(text="", tokens=0, whole=False)


def instead_of_lines(scene: Scene) -> RenderedView | None:
    """Render a revision without lines, at every level; None if it has lines."""
    revision = scene.revision
    if revision.lines:
        return None
    short = "(empty)" if revision.state == "text" else f"({revision.state})"
    return one_line((revision.notice, short), scene.budget, scene.count)


# --- lines -----------------------------------------------------------------------------------------------------------


_AROUND: Final = 500
LONGEST_WHOLE: Final = 8_000
"""Characters of the longest line that is shown whole."""
_PART: Final = 2_000
"""Characters of a longer line that are shown, if the budget allows."""
_LEAD: Final = 4
"""One of this many characters of a cut line is before the column."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as excerpts show them: number and tab, text, newline.

    Long lines are cut, which bounds their cost.

    It has the lines and not their revision, which has a ruler over this: a cycle would keep old revisions in memory.
    """

    lines: Sequence[str]
    first: int = 1

    def head(self, index: int) -> str:
        """Return line `index`; the first `_PART` characters of a long one."""
        if self._length(index) <= LONGEST_WHOLE:
            return f"{self._gutter(index)}{self.lines[index]}\n"
        return self._part(index, 0, _PART)

    def at(self, place: Place) -> str:
        """Return the line at `place`.

        The characters around the column of a long one.
        """
        if self._length(place.line) <= LONGEST_WHOLE:
            return self.head(place.line)
        return self._around(place, _PART)

    def fitting(self, place: Place, budget: int, count: Callable[[str], int]) -> str | None:
        """Return as much of the line at `place` as fits.

        Returns None if not even one character does.
        """
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

    def _slice(self, index: int, start: int, size: int) -> str:
        lines = self.lines
        return lines.part(index, start, size) if isinstance(lines, PagedLines) else lines[index][start : start + size]

    def _around(self, place: Place, size: int) -> str:
        length = self._length(place.line)
        return self._part(place.line, max(0, min(place.column - size // _LEAD, length - size)), size)

    def _part(self, index: int, start: int, size: int) -> str:
        # With enough around it to tell which words the cuts break, so that none of them is shown in part.
        first, length = max(0, start - _AROUND), self._length(index)
        around = self._slice(index, first, start - first + size + _AROUND)
        begin, end = start - first, min(start + size, length) - first
        begin, end = begin + broken_word(around, begin)[1], end - broken_word(around, end)[0]
        begin = min(begin, start - first + size)
        part = around[begin : max(begin, end)]
        start, after = first + begin, length - first - max(begin, end)
        if not part:
            return f"{self._gutter(index)}[{left_out(length)}]\n"
        lead = f"[{left_out(start)}] " if start else ""
        trail = f" [{left_out(after)}]" if after else ""
        return f"{self._gutter(index)}{lead}{part}{trail}\n"


def measured(revision: Revision, count: Callable[[str], int]) -> tuple[Lines, Ruler]:
    """Return the revision's lines as excerpts show them, and the ruler that measures them."""
    lines = Lines(revision.lines, revision.first_line)
    return lines, revision.ruler(lines.head, count)


# --- large texts -----------------------------------------------------------------------------------------------------


LARGEST_WINDOW: Final = 1_000_000
"""Tokens of the largest window on a text that is read by pages."""


def instead_of_large_text(scene: Scene) -> RenderedView | None:
    """Render a line instead of a large text, if the budget is for more than a window; else return None."""
    if scene.revision.state == "paged" and scene.budget > LARGEST_WINDOW:
        return _line(scene, f"{size_of(scene.revision)}, too large to be shown whole; SetTokens(2000) shows a part")
    return None


def instead_of_outline(scene: Scene) -> RenderedView | None:
    """Render a line instead of the outline of a large text, which is read by pages; else return None."""
    if scene.revision.state == "paged":
        return _line(scene, f"{size_of(scene.revision)}, too large for an outline; SetLod(0) shows its lines")
    return None


def instead_of_differences(scene: Scene) -> RenderedView | None:
    """Render a line instead of the diff of a large text.

    Returns None if both texts are in memory.
    """
    revision, before = scene.revision, scene.last_shown
    if revision.state not in ("text", "paged") or "paged" not in (revision.state, before and before.state):
        return None
    if before is None:
        return _line(scene, f"not shown before, so there is no difference; lod=0 shows its {len(revision.lines)} lines")
    since = f"since statement {scene.shown_in}" if scene.shown_in else "since it was last shown"
    if revision.same_as(before):
        return _line(scene, f"unchanged {since}")
    return _line(scene, f"changed {since}: {change_between(before, revision).summary}")


def _line(scene: Scene, text: str) -> RenderedView:
    return one_line((f"({text})",), scene.budget, scene.count)


def lost_line(scene: Scene, error: PageLostError) -> RenderedView:
    """Render a line instead of lines that cannot be read any more."""
    return one_line((str(error), "(cannot be read any more)"), scene.budget, scene.count, whole=False)
