"""Level 0: the lines around a place, with line numbers, within an exact budget.

The line at the place comes first. Lines above it get a third of the other tokens, lines below the remainder; what one
side does not need, the other gets. A line above and a line below count the omitted lines. The
revision's ruler measures lines, so no line is counted again for another budget or place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from ...core.text import DOTS
from ...core.tokens import Ruler
from ..document import Place
from ..filling import Ladder, Spent, single
from ..filling import ladder as filled
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
    more = f"{DOTS} {sheet.length} {noun}; none fits in {budget} tokens"
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
    start, end = _window(sheet, budget - own, above, below)
    return _composed(sheet, start, end, line)


def _reserved(sheet: _Sheet, most: int, side: str) -> int:
    """Return the tokens that a marker for up to `most` lines may take."""
    return max(sheet.count(_marker(most, side)), sheet.count(_marker(min(most, 1), side)))


def _window(sheet: _Sheet, budget: int, above: int, below: int) -> tuple[int, int]:
    """Return the first and past-the-last line of the window around the place.

    Lines are added one by one, in an order that does not depend on the budget (see `_windows`), up to the first that
    does not fit. The ruler jumps to a window that the order passes through, with room for both markers; from there a
    few lines are added.

    Args:
        budget: without the line at the place, with markers.
        above: tokens that the marker above may take.
        below: the same below.
    """
    at, n, ruler = sheet.place.line, sheet.length, sheet.ruler
    room = max(budget - above - below, 0)
    start, end = ruler.up(at, room // _ABOVE_SHARE), ruler.down(at + 1, room * (_ABOVE_SHARE - 1) // _ABOVE_SHARE)
    if start == 0:
        end = ruler.down(at + 1, room - ruler.between(0, at))
    elif end == n:
        start = ruler.up(at, room - ruler.between(at + 1, n))
    used = ruler.between(start, at) + ruler.between(at + 1, end)
    for first, last, tokens in _windows(sheet, start, end):
        used += tokens
        marks = sheet.count(_marker(first, "above")) + sheet.count(_marker(n - last, "below"))
        if used + marks > budget:
            break
        start, end = first, last
    return start, end


def _windows(sheet: _Sheet, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the larger windows in order: the first and past-the-last line, and the tokens of the new line.

    Of the lines above and below, the one comes next that keeps a third of the tokens above the place.
    """
    at, n, ruler = sheet.place.line, sheet.length, sheet.ruler
    over, under = ruler.between(start, at), ruler.between(at + 1, end)
    above = ruler.between(start - 1, start) if start else 0
    below = ruler.between(end, end + 1) if end < n else 0
    while start or end < n:
        if end == n or (start and (over + above) * (_ABOVE_SHARE - 1) <= under + below):
            start, over = start - 1, over + above
            yield start, end, above
            above = ruler.between(start - 1, start) if start else 0
        else:
            end, under = end + 1, under + below
            yield start, end, below
            below = ruler.between(end, end + 1) if end < n else 0


def ladder(scene: Scene) -> Ladder:
    """Return the excerpts of at most the scene's budget, from the line at the place to the whole text."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return single(instead)
    sheet = _Sheet(*measured(scene.revision, scene.count), scene.place, scene.count)
    preface = scene.revision.notice + "\n" if scene.revision.notice else ""
    windows: list[tuple[int, int]] = []
    line = sheet.lines.at(scene.place)

    def texts() -> Iterator[Spent]:
        at = scene.place.line
        used = scene.count(preface) + scene.count(line)
        for start, end, tokens in chain([(at, at + 1, 0)], _windows(sheet, at, at + 1)):
            used += tokens
            windows.append((start, end))
            marks = scene.count(_marker(start, "above")) + scene.count(_marker(sheet.length - end, "below"))
            yield Spent(used + marks, used)

    def show(units: int) -> RenderedView:
        return _prefaced(preface, _composed(sheet, *windows[units], line), scene.count)

    return filled(texts(), scene.budget, show)


def whole(scene: Scene) -> RenderedView | None:
    """Return the excerpt that is the whole text; None if it does not fit."""
    shown = render(scene)
    return shown if shown.whole else None


def lines_around(scene: Scene) -> Iterator[tuple[int, int]]:
    """Yield the lines of the text in the order of an excerpt: their tokens and their indices from 0."""
    sheet = _Sheet(*measured(scene.revision, scene.count), scene.place, scene.count)
    at = before = scene.place.line
    yield sheet.ruler.between(at, at + 1), at
    for start, end, tokens in _windows(sheet, at, at + 1):
        yield tokens, start if start < before else end - 1
        before = start


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
