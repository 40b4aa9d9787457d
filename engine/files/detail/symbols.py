"""Level 1: the symbols of a text, each with its lines, and the lines around the place in full.

Names are shown as far as the budget allows: outer before inner, public before others, near before far. If not all fit,
a row counts the omitted symbols within it, and a last line the others. Signatures, and keys within others, may take an
eighth of the text's tokens, whatever the budget, because the level is for orientation.

Also has the rows and words for symbols that level 2 uses. Pure. A row begins with a digit and ends with a newline, so
the counts of rows add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...core.text import ELLIPSIS, cut_line, more
from ..outline.model import TOP, Kind, Outline, Symbol
from ..rendered import RenderedView
from ..revision import Revision
from . import raw
from .scene import Scene, instead_of_lines, measured, one_line

SHORTEST, SHORT, FULL, DOCUMENTED = range(4)
"""Forms of a symbol: name and kind; short signature without values; whole signature; signature with documentation."""
_LEAST: Final = 16
"""Tokens that every level may take of the smallest text."""
_SHORT_CHARS: Final = 80
_FULL_CHARS: Final = 240
_DOC_CHARS: Final = 120
_BRACKETS: Final = 4
"""Extra characters that a signature may have to replace the name."""
_NAME_CHARS: Final = 60
_INDENT: Final = "  "
VALUED: Final[frozenset[Kind]] = frozenset({"constant", "variable", "property", "key", "element"})
"""Kinds that have a value and do nothing."""
READ_BY_VALUE: Final[frozenset[Kind]] = frozenset({"key", "element"})
"""Kinds whose name says little without the value."""
_AS_WRITTEN: Final[frozenset[Kind]] = frozenset({*VALUED, "heading", "rule", "block", "extension"})
"""Kinds that the text itself names."""
_LEFT_BY_LINES: Final = re.compile(r"(?<=[(\[]) |,? (?=[)\]])")
_COMMENT: Final = re.compile(r"\s(?:#|//).*$")
_OPEN: Final = re.compile(r"\s*(?:=\s*\w*)?[(\[{:=]+$")
_VALUE: Final = re.compile(r"(?<=[\w\]\"'?)])\s*(?:=(?![=>])|:=).*$")
_WORDS_AND_NAME: Final = re.compile(r"(?:::|[^(={:<\[])*")
_WORDS: Final = re.compile(r"(?:^|\s)(actor|mod|namespace|object|package|protocol|record|union)\s+$")
"""A language's own words for classes, modules and interfaces."""


class Share(NamedTuple):
    """The tokens of a text that a level may take: one for so many bytes, fewer of a small text, up to `floor`.

    Bytes replace tokens, because counting a large file takes longer than its outline.
    """

    bytes_per_token: int
    floor: int
    bytes_per_token_of_small: int

    def of(self, revision: Revision) -> int:
        """Return the share of a text in tokens, whatever the budget."""
        small = max(min(self.floor, revision.size // self.bytes_per_token_of_small), _LEAST)
        return max(revision.size // self.bytes_per_token, small)


def range_of(symbol: Symbol, offset: int = 0) -> str:
    """Return the symbol's lines: `12-40`, or `12` for one. `offset` is added."""
    first, last = symbol.first_line + offset, symbol.last_line + offset
    return str(first) if first == last else f"{first}-{last}"


def row(symbol: Symbol, form: int, offset: int = 0, more: int = 0) -> str:
    """Write a symbol on one line: its range, a tab, the symbol in this form, and the number of hidden inner symbols."""
    indent = "" if symbol.kind == "heading" else _INDENT * symbol.depth
    left_out = f" (+{more})" if more else ""
    return f"{range_of(symbol, offset)}\t{indent}{text_of(symbol, form)}{left_out}\n"


def text_of(symbol: Symbol, form: int) -> str:
    """Write a symbol on one line, never empty."""
    text = (_shortest, _short, _full, _documented)[form](symbol)
    return text or name_of(symbol)


def _full(symbol: Symbol) -> str:
    """Return the signature without spaces from line breaks."""
    text = _LEFT_BY_LINES.sub("", symbol.signature.strip())
    if symbol.kind in VALUED:
        if opened := _OPEN.search(text):
            text = text[: opened.start()] + f" {opened[0].strip()}{ELLIPSIS}"
    elif symbol.kind != "heading":
        text = _COMMENT.sub("", text)
    return cut_line(text, _FULL_CHARS)


def _documented(symbol: Symbol) -> str:
    return f"{_full(symbol)} - {cut_line(symbol.doc, _DOC_CHARS)}" if symbol.doc else _full(symbol)


def _short(symbol: Symbol) -> str:
    text = _full(symbol)
    if symbol.kind in VALUED:
        text = text if symbol.kind in READ_BY_VALUE else _VALUE.sub("", text)
    return cut_line(text, _SHORT_CHARS)


def _shortest(symbol: Symbol) -> str:
    signature = symbol.signature.strip()
    if symbol.kind in VALUED:
        return signature if len(signature) <= len(symbol.name) + _BRACKETS else name_of(symbol)
    if symbol.kind in _AS_WRITTEN:
        return cut_line(symbol.signature.strip(), _NAME_CHARS)
    match = _WORDS_AND_NAME.match(symbol.signature.strip())
    head = match[0].strip() if match else ""
    return head if symbol.name in head and len(head) <= _NAME_CHARS else cut_line(symbol.name, _NAME_CHARS)


def descendants(outline: Outline) -> list[int]:
    """Return the number of symbols within each symbol, at any depth."""
    below = [0] * len(outline.symbols)
    for index in range(len(below) - 1, -1, -1):
        parent = outline.symbols[index].parent
        if parent != TOP:
            below[parent] += 1 + below[index]
    return below


def around(outline: Outline, line: int) -> list[int]:
    """Return the indices of the symbols around a line, outermost first."""
    return [index for index, symbol in enumerate(outline.symbols) if symbol.first_line <= line <= symbol.last_line]


def heading(outline: Outline | None, lines: int) -> str:
    """Describe the text in a few words: `269 lines of python`."""
    text = f"{lines} {'line' if lines == 1 else 'lines'}"
    if outline is None:
        return text
    if outline.language:
        text += f" of {outline.language}"
    if outline.is_provisional:
        return text + ", outlined roughly until a parser has read it"
    if outline.has_errors:
        text += ", parsed in part"
    return text if outline.complete else text + ", of which a part is outlined"


def kind_and_name(symbol: Symbol) -> str:
    """Write a symbol in two words; a heading, key or extension as in the text."""
    if symbol.kind in _AS_WRITTEN:
        return text_of(symbol, SHORTEST)
    word = _WORDS.search(symbol.signature.partition(symbol.name)[0]) if symbol.name else None
    return f"{word[1] if word else symbol.kind} {name_of(symbol)}"


def name_of(symbol: Symbol) -> str:
    """Return the symbol's name, never empty and not very long."""
    return cut_line(symbol.name, _NAME_CHARS) or symbol.kind


# --- the level -------------------------------------------------------------------------------------------------------


_SHARE: Final = Share(42, 120, 16)
"""An eighth of a text with 5 bytes for each token, and a third of a small one."""
_NEAR_FLOOR: Final = 160
"""Tokens for the lines around a chosen place, if the budget allows."""
_PART: Final = 3
"""A third of the budget is for lines around the place, and a third of these for lines above it."""
_LEFT_OUT: Final = -1
_LEAST_GAIN: Final = 2
"""Tokens below which no row is tried: most forms take more than the one before."""
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class _Near:
    """Consecutive lines by their indices from 0, as they are shown."""

    start: int = 0
    end: int = 0
    text: str = ""
    tokens: int = 0

    def covers(self, first: int, last: int) -> bool:
        """Return whether these lines, counted from 1, are all shown."""
        return self.start < first and last <= self.end


class _Rows:
    """The rows of an outline while it is decided which to show, in which form."""

    def __init__(self, scene: Scene, outline: Outline, near: _Near, room: int, share: int) -> None:
        """`room` is for names, in tokens.

        Their cost counts toward `share`, which is for the rest.
        """
        self._scene = scene
        self._symbols = outline.symbols
        self._near = near
        self._offset = scene.revision.first_line - 1
        self._below = descendants(outline)
        # Symbols among the lines near the place are shown in full already.
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
        """Return the rows, with the lines near the place among them."""
        missing = self._missing()
        rows: list[tuple[int, str]] = [(self._near.start, self._near.text)] if self._near.text else []
        for index, symbol in enumerate(self._symbols):
            if self._forms[index] == _LEFT_OUT or self._near.covers(symbol.first_line, symbol.last_line):
                continue
            text = row(symbol, self._forms[index], self._offset, missing[index])
            at = symbol.first_line - 1
            # A row whose first line is shown in full comes below those lines.
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
        """Show rows in this form, in this order, as long as there is room."""
        for index in order:
            if self._room < _LEAST_GAIN:
                break
            parent = self._symbols[index].parent
            if self._forms[index] != form - 1 or (parent != TOP and self._forms[parent] == _LEFT_OUT):
                continue
            # With the largest number that may follow.
            cost = self._scene.count(row(self._symbols[index], form, self._offset, self._below[index]))
            if cost - self._costs[index] <= self._room:
                self._room -= cost - self._costs[index]
                self._forms[index], self._costs[index] = form, cost

    def _missing(self) -> list[int]:
        """Return the number of hidden symbols below each shown row.

        The last number is the others.
        """
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
    """Render the outline; empty if not even "..." fits."""
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
    text = f"{head}, {len(outline.symbols)} symbols" if outline.symbols else head
    return one_line((text, head), scene.budget, scene.count, whole=not outline.symbols)


def _near(scene: Scene, *, is_chosen: bool) -> _Near:
    """Return the lines around the place, if it was chosen or the outline is empty."""
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
