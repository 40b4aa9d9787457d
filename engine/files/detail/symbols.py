"""Level 1: what a text declares, each with its lines, and the lines around the place in full.

Each symbol is shown by its name, as far as the budget reaches: outer before inner, public before others, near before
far. Where not all names fit, a row says how many symbols within it are left out, and a last line how many others.
The rest has a share of the text, an eighth of its tokens, whatever the budget, because it is a level for finding one's
way: keys within others, whose names say little, and signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.cutting import more
from ..outline.model import TOP, Outline
from ..rendered import RenderedView
from . import raw
from .line import measured
from .rows import DOCUMENTED, FULL, READ_BY_VALUE, SHORT, SHORTEST, Share, around, descendants, heading, row
from .scene import Scene, instead_of_lines, one_line

_SHARE: Final = Share(42, 120, 16)
"""An eighth of a text that has 5 bytes for each of its tokens, and of a small one a third."""
_NEAR_FLOOR: Final = 160
"""Tokens for the lines around a place that somebody chose, where the budget allows."""
_PART: Final = 3
"""Of the budget a third is for lines around the place, and of those a third for the ones above it."""
_LEFT_OUT: Final = -1
_LEAST_GAIN: Final = 2
"""Tokens below which no row is worth a try: most forms take more than the one before."""
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class _Near:
    """Consecutive lines by their indices from 0, and as they are shown."""

    start: int = 0
    end: int = 0
    text: str = ""
    tokens: int = 0

    def covers(self, first: int, last: int) -> bool:
        """Whether all lines with these numbers, from 1, are among them."""
        return self.start < first and last <= self.end


class _Rows:
    """The rows of an outline while it is decided which are shown, and in which form."""

    def __init__(self, scene: Scene, outline: Outline, near: _Near, room: int, share: int) -> None:
        """`room` is for names, in tokens; what they take counts toward `share`, which is for the rest."""
        self._scene = scene
        self._symbols = outline.symbols
        self._near = near
        self._offset = scene.revision.first_line - 1
        self._below = descendants(outline)
        # What stands among the lines near the place is there in full, for nothing.
        self._forms = [
            DOCUMENTED if near.covers(symbol.first_line, symbol.last_line) else _LEFT_OUT for symbol in self._symbols
        ]
        self._costs = [0] * len(self._symbols)
        order = self._order(around(outline, scene.place.line + 1))
        reserved = scene.count(self._rest(len(order)))
        self._room = room - reserved
        self._take(filter(self._is_name, order), SHORTEST)
        self._room -= room - share
        self._take(order, SHORTEST)
        if self.are_all:
            self._room += reserved
        for form in (SHORT, FULL, DOCUMENTED):
            self._take(order, form)

    @property
    def are_all(self) -> bool:
        return _LEFT_OUT not in self._forms

    @property
    def are_all_names(self) -> bool:
        return not any(form == _LEFT_OUT and self._is_name(index) for index, form in enumerate(self._forms))

    @property
    def shown(self) -> int:
        return len(self._forms) - self._forms.count(_LEFT_OUT)

    def text(self) -> str:
        """The rows with the lines near the place among them."""
        missing = self._missing()
        rows: list[tuple[int, str]] = [(self._near.start, self._near.text)] if self._near.text else []
        for index, symbol in enumerate(self._symbols):
            if self._forms[index] == _LEFT_OUT or self._near.covers(symbol.first_line, symbol.last_line):
                continue
            text = row(symbol, self._forms[index], self._offset, missing[index])
            at = symbol.first_line - 1
            # A row whose first line is shown in full stands below those lines, which say what it is.
            rows.append((self._near.end if self._near.start < at < self._near.end else at - 1, text))
        rows.sort(key=lambda entry: entry[0])
        return "".join(text for _, text in rows) + self._rest(missing[TOP])

    def _is_name(self, index: int) -> bool:
        symbol = self._symbols[index]
        return symbol.depth == 0 or symbol.kind not in READ_BY_VALUE

    def _order(self, chain: Sequence[int]) -> list[int]:
        at = self._scene.place.line + 1
        inside = frozenset(chain)

        def key(index: int) -> tuple[bool, int, bool, int, int]:
            symbol = self._symbols[index]
            distance = max(symbol.first_line - at, at - symbol.last_line, 0)
            return index not in inside, symbol.depth, not symbol.public, distance, index

        return sorted(range(len(self._symbols)), key=key)

    def _take(self, order: Iterable[int], form: int) -> None:
        """Shows rows in that form, in this order, as far as there is room."""
        for index in order:
            if self._room < _LEAST_GAIN:
                break
            parent = self._symbols[index].parent
            if self._forms[index] != form - 1 or (parent != TOP and self._forms[parent] == _LEFT_OUT):
                continue
            # With the largest number that can follow it.
            cost = self._scene.count(row(self._symbols[index], form, self._offset, self._below[index]))
            if cost - self._costs[index] <= self._room:
                self._room -= cost - self._costs[index]
                self._forms[index], self._costs[index] = form, cost

    def _missing(self) -> list[int]:
        """Of each row that is shown, how many symbols below it are not; the last number is of those below none."""
        missing = [0] * (len(self._symbols) + 1)
        for index, symbol in enumerate(self._symbols):
            if self._forms[index] == _LEFT_OUT:
                parent = symbol.parent
                while parent != TOP and self._forms[parent] == _LEFT_OUT:
                    parent = self._symbols[parent].parent
                missing[parent] += 1
        return missing

    @staticmethod
    def _rest(symbols: int) -> str:
        return more(symbols, "symbol") + "\n" if symbols else ""


def render(scene: Scene) -> RenderedView:
    """The outline. Never over the budget; empty where not even "..." fits."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    if scene.revision.is_listing:
        return raw.render(scene)
    outline = scene.outline or Outline(tier="indentation")
    head = heading(outline, len(scene.revision.lines))
    documented = f"{head}: {outline.doc}" if outline.doc else head
    near = _near(scene, is_chosen=scene.place.line > 0 or not outline.symbols)
    room = scene.budget - near.tokens
    for _ in range(_TRIES):
        share = min(_SHARE.of(scene.revision), room)
        top = next((line + "\n" for line in (documented, head) if scene.count(line + "\n") <= share // 2), "")
        heading_tokens = scene.count(top)
        rows = _Rows(scene, outline, near, room - heading_tokens, share - heading_tokens)
        text = top + rows.text()
        tokens = scene.count(text)
        if tokens <= scene.budget and (rows.shown or near.text):
            first, last = (near.start + 1, near.end) if near.text else (scene.place.line + 1, scene.place.line + 1)
            offset = scene.revision.first_line - 1
            is_whole = rows.are_all or (rows.are_all_names and share < room)
            return RenderedView(
                text=text, tokens=tokens, first_line=first + offset, last_line=last + offset, whole=is_whole
            )
        room -= max(tokens - scene.budget, 1)
    said = f"{head}, {len(outline.symbols)} symbols" if outline.symbols else head
    return one_line((said, head), scene.budget, scene.count, whole=not outline.symbols)


def _near(scene: Scene, *, is_chosen: bool) -> _Near:
    """The lines around the place, where somebody chose it or there is nothing else to show."""
    if not is_chosen:
        return _Near()
    lines, ruler = measured(scene.revision, scene.count)
    room = min(scene.budget // _PART, max(_NEAR_FLOOR, _SHARE.of(scene.revision) // _PART))
    at = scene.place.line
    start = ruler.up(at, room // _PART)
    end = ruler.down(at, room - ruler.between(start, at))
    if end == at:
        return _Near()
    return _Near(start, end, "".join(map(lines.head, range(start, end))), ruler.between(start, end))
