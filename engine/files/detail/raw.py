"""Level 0: the lines around a place, with line numbers, within an exact budget.

The line at the place comes first. A third of the rest of the budget is for lines above it, the remainder for lines
below; what one side does not need, the other gets. A line above and a line below count the omitted lines. The
revision's ruler measures lines, so no line is counted again for another budget or place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...core.text import DOTS
from ...core.tokens import Ruler
from ..document import Place
from ..rendered import RenderedView
from .scene import Lines, Scene, instead_of_lines, measured, one_line

_ABOVE_SHARE: Final = 3


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The lines, their measure and the place: all input of an excerpt except the budget."""

    lines: Lines
    ruler: Ruler
    place: Place
    count: Callable[[str], int]

    @property
    def length(self) -> int:
        return len(self.lines.lines)


def render(scene: Scene) -> RenderedView:
    """Render the excerpt; empty if not even "..." fits."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    revision, count = scene.revision, scene.count
    preface = revision.notice + "\n" if revision.notice else ""
    room = scene.budget - count(preface)
    sheet = _Sheet(*measured(revision, count), scene.place, count)
    if room > 0:
        for marked in (True, False):
            excerpt = _excerpt(sheet, room, marked=marked)
            if excerpt is not None:
                return _prefaced(preface, excerpt, count)
    return _stub(sheet, scene.budget)


def _prefaced(preface: str, excerpt: RenderedView, count: Callable[[str], int]) -> RenderedView:
    return RenderedView(
        text=preface + excerpt.text,
        tokens=count(preface) + excerpt.tokens,
        first_line=excerpt.first_line,
        last_line=excerpt.last_line,
        whole=excerpt.whole,
    )


def _stub(sheet: _Sheet, budget: int) -> RenderedView:
    """Render a part of the line at the place, or at least the number of lines."""
    part = sheet.lines.fitting(sheet.place, budget, sheet.count)
    if part is not None:
        number = sheet.place.line + sheet.lines.first
        return RenderedView(text=part, tokens=sheet.count(part), first_line=number, last_line=number, whole=False)
    noun = "line" if sheet.length == 1 else "lines"
    more = f"{DOTS} {sheet.length} {noun}, of which none fits {budget} tokens"
    return one_line((more, f"{DOTS} {sheet.length} {noun}"), budget, sheet.count, whole=False)


def _marker(lines: int, side: str) -> str:
    return f"{DOTS} {lines} {'line' if lines == 1 else 'lines'} {side}\n" if lines else ""


def _excerpt(sheet: _Sheet, budget: int, *, marked: bool) -> RenderedView | None:
    """Return the window around the place; None if that line does not fit.

    Without markers it is that line alone.
    """
    at, n, ruler = sheet.place.line, sheet.length, sheet.ruler
    line = sheet.lines.at(sheet.place)
    # A line takes at least one token, so the beginning of a long text is read only if it may be shown.
    if n <= budget and line == sheet.lines.head(at) and ruler.down(0, budget) == n:
        return _composed(sheet, 0, n, line)
    above = _reserved(sheet, at, "above") if marked else 0
    below = _reserved(sheet, n - 1 - at, "below") if marked else 0
    own = sheet.count(line)
    if own + above + below > budget:
        return None
    if not marked:
        number = at + sheet.lines.first
        return RenderedView(text=line, tokens=own, first_line=number, last_line=number, whole=False)
    start, end = _window(ruler, at, n, budget - own, above, below)
    return _composed(sheet, start, end, line)


def _reserved(sheet: _Sheet, most: int, side: str) -> int:
    """Return the tokens that a marker for up to `most` lines may take."""
    return max(sheet.count(_marker(most, side)), sheet.count(_marker(min(most, 1), side)))


def _window(ruler: Ruler, at: int, n: int, budget: int, above: int, below: int) -> tuple[int, int]:
    """Return the first and past-the-last line of the window around line `at`.

    `budget` excludes that line and includes the markers.
    """
    rest = budget - above - below
    start = ruler.up(at, rest // _ABOVE_SHARE)
    if start == 0:
        rest += above
    end = ruler.down(at + 1, rest - ruler.between(start, at))
    if end == n:
        rest += below
    start = ruler.up(at, rest - ruler.between(at + 1, end))
    if start == 0 and end < n:
        end = ruler.down(at + 1, budget - below - ruler.between(0, at))
    return start, end


def _composed(sheet: _Sheet, start: int, end: int, line: str) -> RenderedView:
    """Join lines start..end-1 with their markers.

    `line` is the one at the place.
    """
    at = sheet.place.line
    above, below = _marker(start, "above"), _marker(sheet.length - end, "below")
    body = [sheet.lines.head(index) for index in range(start, end)]
    body[at - start] = line
    around = sheet.ruler.between(start, at) + sheet.ruler.between(at + 1, end)
    tokens = around + sum(map(sheet.count, (above, line, below)))
    first = sheet.lines.first
    return RenderedView(
        text="".join((above, *body, below)),
        tokens=tokens,
        first_line=start + first,
        last_line=end - 1 + first,
        whole=end - start == sheet.length,
    )
