"""All that a render may depend on, as one value, and what the levels have in common: one line where one is enough.

Pure. Must not know handles. Made by whoever renders (`ViewHandle`, groups), read by the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.text import DOTS, left_out
from ...core.tokens import Ruler
from ..changes import change_between, size_of
from ..document import Place
from ..outline.model import Outline
from ..paging import PagedLines, PageLostError
from ..rendered import RenderedView
from ..revision import Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One revision at one place within one budget.

    `budget` is in tokens, at least 1, and `count` gives exact tokens. `last_shown` is the revision that the model read
    last of this node, None where it has read none, and `shown_in` the index of the statement that showed it, 0 where
    that is not known. `outline` is of the revision, for the levels that need one. `summary` is what a model wrote about
    the revision, empty where nothing is prepared.
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


def one_line(
    candidates: Sequence[str], budget: int, count: Callable[[str], int], *, whole: bool = True
) -> RenderedView:
    """The first of the lines that fits, given without their newlines; "..." where none does, and at last nothing.

    Args:
        whole: whether the first of them says all.
    """
    for candidate in (*candidates, DOTS):
        tokens = count(candidate + "\n")
        if tokens <= budget:
            return RenderedView(text=candidate + "\n", tokens=tokens, whole=whole and candidate == candidates[0])
    return RenderedView(text="", tokens=0, whole=False)


def instead_of_lines(scene: Scene) -> RenderedView | None:
    """What stands for a revision that has no lines, at every level; None for one that has some."""
    revision = scene.revision
    if revision.lines:
        return None
    short = "(empty)" if revision.state == "text" else f"({revision.state})"
    return one_line((revision.notice, short), scene.budget, scene.count)


# line:
# The lines of an excerpt: whole where they are of ordinary length, else a part that says what is cut.
#
# Bounds what a single line can cost, whatever the file holds. Called by the level 0 renderer and by `Scroll`. Holds
# the lines and not their revision, which holds the ruler over them: a cycle would keep every old revision in memory.

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


# paged:
# What stands for a text that is read by pages where all of it would be needed: one line with its size, and what
# works.
#
# Its lines are shown at level 0, a window at a time, as those of any text. Outlines and differences are not made of
# it, but where it begins to differ is told.

LARGEST_WINDOW: Final = 1_000_000
"""Tokens of the largest window on such a text."""


def instead_of_lines_or_outline(scene: Scene, lod: int) -> RenderedView | None:
    """The line that stands for the scene at a level; None where its lines are shown, or the text is held."""
    revision = scene.revision
    if revision.state != "paged":
        return None
    if lod:
        return _line(scene, f"{size_of(revision)}, too large for an outline; SetLod(0) shows its lines")
    if scene.budget > LARGEST_WINDOW:
        return _line(scene, f"{size_of(revision)}, too large to be shown whole; SetTokens(2000) shows a part")
    return None


def instead_of_differences(scene: Scene) -> RenderedView | None:
    """The line that stands for what changed since the text was shown; None where both texts are held."""
    revision, before = scene.revision, scene.last_shown
    if revision.state not in ("text", "paged") or "paged" not in (revision.state, before and before.state):
        return None
    if before is None:
        return _line(scene, f"not shown before, so there is no difference; lod=0 shows its {len(revision.lines)} lines")
    since = f"since statement {scene.shown_in}" if scene.shown_in else "since it was last shown"
    if revision.same_as(before):
        return _line(scene, f"unchanged {since}")
    return _line(scene, f"changed {since}: {change_between(before, revision).said}")


def _line(scene: Scene, said: str) -> RenderedView:
    return one_line((f"({said})",), scene.budget, scene.count)


def lost_line(scene: Scene, error: PageLostError) -> RenderedView:
    """The line that stands for lines which cannot be read any more."""
    return one_line((str(error), "(cannot be read any more)"), scene.budget, scene.count, whole=False)
