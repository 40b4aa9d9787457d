"""Level 1: the symbols of a text, each with its lines, and the lines around the place in full.

Names come first: outer before inner, public before others, near before far. If not all fit, a row counts the omitted
symbols within it, and a last line the others. Then come keys within others, signatures and documentation. If nobody
chose the budget, these may take an eighth of the text's tokens, because the level is for orientation. In groups that
allow level 0, lines in full come last and replace the rows that they show, up to the whole text.

Also has the rows and words for symbols that level 2 uses. Pure. A row begins with a digit and ends with a newline, so
the counts of rows add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple

from ...core.text import ELLIPSIS, cut_line, more
from ..filling import Ladder, Spent, interleaved, single
from ..filling import ladder as filled
from ..outline.model import TOP, Kind, Outline, Symbol
from ..rendered import RenderedView
from ..revision import Revision
from . import text as text_level
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
    """Write a symbol on one line, never empty.

    A signature without the name, such as that of the first of several variables, is not shown.
    """
    text = (_shortest, _short, _full, _documented)[form](symbol)
    if form != SHORTEST and symbol.name[-_NAME_CHARS:].rpartition(".")[2] not in text:
        text = _shortest(symbol)
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
    return text if outline.complete else text + ", outlined in part"


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
"""Tokens for the lines around a chosen place; more in a large text."""
_PART: Final = 3
"""A third of the tokens is for lines around the place, until these have a third of the level's share."""
_LEFT_OUT: Final = -1
_BEFORE_DOC: Final = 8
"""Rows that come before the documentation of the text."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A step of the text: symbol `index` in a form; a line of the text in full; or the documentation of the text."""

    index: int = 0
    form: int = SHORTEST
    is_line: bool = False
    is_doc: bool = False


_DOC: Final = _Unit(is_doc=True)


class _Rows:
    """An outline while units are added to it, with its tokens."""

    def __init__(self, scene: Scene, outline: Outline, *, counts: bool = True) -> None:
        """Unless `counts`, the tokens are not counted, because only the text is wanted."""
        self._scene = scene
        self._counts = counts
        self._marks: dict[tuple[bool, int], int] = {}
        self._symbols = outline.symbols
        self._outline = outline
        self._offset = scene.revision.first_line - 1
        self.forms = [_LEFT_OUT] * len(self._symbols)
        self._below = descendants(outline)
        # The last number is that of symbols without a shown symbol around them.
        self._hidden = [*self._below, len(self._symbols)]
        self._costs = [(0, 0)] * len(self._symbols)
        self._covered = [False] * len(self._symbols)
        self._by_first: dict[int, list[int]] | None = None
        self._by_last: dict[int, list[int]] = {}
        self._near = (scene.place.line, scene.place.line)
        self._near_tokens = 0
        self._has_doc = False
        self._known: dict[tuple[int, int, bool], int] = {}
        self.head = heading(outline, len(scene.revision.lines))
        self._top_tokens = scene.count(f"{self.head}\n")
        self._rows = self._bare = 0

    @property
    def spent(self) -> Spent:
        """The tokens so far, and those without the counts of hidden symbols, which may go."""
        least = self._top_tokens + self._bare + self._near_tokens
        hidden = self._hidden[TOP]
        rest = self._mark(hidden, is_last=True) if hidden else 0
        return Spent(self._top_tokens + self._rows + self._near_tokens + rest, least)

    @property
    def documented(self) -> str:
        """The first line with the documentation of the text."""
        return f"{self.head}: {self._outline.doc}\n"

    @property
    def are_all(self) -> bool:
        return not any(form == _LEFT_OUT and not seen for form, seen in zip(self.forms, self._covered, strict=True))

    @property
    def are_all_names(self) -> bool:
        forms = zip(self.forms, self._covered, strict=True)
        return not any(
            form == _LEFT_OUT and not covered and self.is_name(index) for index, (form, covered) in enumerate(forms)
        )

    def is_name(self, index: int) -> bool:
        symbol = self._symbols[index]
        return symbol.depth == 0 or symbol.kind not in READ_BY_VALUE

    def gain(self, unit: _Unit) -> int:
        """Return the tokens that a unit of a symbol adds, without counts of hidden symbols."""
        ends = not self._below[unit.index]
        before = self._counted(unit.index, unit.form - 1, ends=ends) if unit.form != SHORTEST else 0
        return max(self._counted(unit.index, unit.form, ends=ends) - before, 0)

    def take(self, unit: _Unit) -> None:
        """Add a unit."""
        if unit.is_doc:
            self._has_doc = True
            self._top_tokens = self._scene.count(self.documented)
        elif unit.is_line:
            self._take_line(unit.index)
        elif not self._covered[unit.index]:
            if self.forms[unit.index] == _LEFT_OUT:
                self._lift(unit.index, 1 + self._hidden[unit.index])
            self.forms[unit.index] = unit.form
            self._cost_again(unit.index)

    def _lift(self, index: int, number: int) -> None:
        """Count fewer hidden symbols around a symbol, up to the first row that counts them."""
        parent = self._symbols[index].parent
        while True:
            self._hidden[parent] -= number
            if parent == TOP:
                return
            if self.forms[parent] != _LEFT_OUT:
                self._cost_again(parent)
                return
            parent = self._symbols[parent].parent

    def _cost_again(self, index: int) -> None:
        if self._covered[index]:
            return
        if not self._counts:
            return
        hidden = self._hidden[index]
        begun = self._counted(index, self.forms[index], ends=not hidden)
        # A space before a visible character begins a token, so the count of hidden symbols adds its own tokens.
        cost = begun + self._mark(hidden) if hidden else begun
        self._rows += cost - self._costs[index][0]
        self._bare += begun - self._costs[index][1]
        self._costs[index] = cost, begun

    def _mark(self, number: int, *, is_last: bool = False) -> int:
        """Return the tokens of a number of hidden symbols, in a row or in the last line.

        They depend on how many digits it has, because up to three digits are a token.
        """
        key = is_last, 0 if number == 1 else len(str(number))
        known = self._marks.get(key)
        if known is None:
            known = self._marks[key] = self._scene.count(self._rest(number) if is_last else f" (+{number})\n")
        return known

    def _counted(self, index: int, form: int, *, ends: bool) -> int:
        """Return the tokens of a row; without its newline, unless it `ends`, because a number follows."""
        key = index, form, ends
        known = self._known.get(key)
        if known is None:
            text = row(self._symbols[index], form, self._offset)
            known = self._known[key] = self._scene.count(text if ends else text[:-1])
        return known

    def _take_line(self, line: int) -> None:
        start, end = self._near
        if start <= line < end:
            return
        self._near = min(start, line), max(end, line + 1)
        if self._counts:
            _, ruler = measured(self._scene.revision, self._scene.count)
            self._near_tokens += ruler.between(line, line + 1)
        if self._by_first is None:
            self._by_first = {}
            for index, symbol in enumerate(self._symbols):
                self._by_first.setdefault(symbol.first_line, []).append(index)
                self._by_last.setdefault(symbol.last_line, []).append(index)
        for index in reversed((*self._by_first.get(line + 1, ()), *self._by_last.get(line + 1, ()))):
            self._cover(index)

    def _cover(self, index: int) -> None:
        """Note that the lines show a symbol, if they show all of it."""
        start, end = self._near
        if self._covered[index] or not start < self._symbols[index].first_line <= self._symbols[index].last_line <= end:
            return
        if self.forms[index] == _LEFT_OUT:
            self._lift(index, 1)
        else:
            self._rows -= self._costs[index][0]
            self._bare -= self._costs[index][1]
        self._covered[index] = True

    def text(self) -> str:
        """Return the rows, with the lines near the place among them."""
        missing = self._missing()
        start, end = self._near
        lines, _ = measured(self._scene.revision, self._scene.count)
        near = "".join(map(lines.head, range(start, end)))
        rows: list[tuple[int, str]] = [(start, near)] if near else []
        for index, symbol in enumerate(self._symbols):
            if self.forms[index] == _LEFT_OUT or self._covered[index]:
                continue
            text = row(symbol, self.forms[index], self._offset, missing[index])
            at = symbol.first_line - 1
            # A row whose first line is shown in full comes below those lines.
            rows.append((end if start < at < end else at - 1, text))
        rows.sort(key=lambda entry: entry[0])
        top = self.documented if self._has_doc else f"{self.head}\n"
        return top + "".join(text for _, text in rows) + self._rest(missing[TOP])

    @property
    def near(self) -> tuple[int, int]:
        """The first and past-the-last line in full, from 0; equal without any."""
        return self._near

    def _missing(self) -> list[int]:
        """Return the number of hidden symbols below each shown row.

        The last number is the others.
        """
        missing = [0] * (len(self._symbols) + 1)
        for index, symbol in enumerate(self._symbols):
            if self.forms[index] == _LEFT_OUT and not self._covered[index]:
                parent = symbol.parent
                while parent != TOP and self.forms[parent] == _LEFT_OUT and not self._covered[parent]:
                    parent = self._symbols[parent].parent
                missing[parent] += 1
        return missing

    @staticmethod
    def _rest(symbols: int) -> str:
        return more(symbols, "symbol") + "\n" if symbols else ""


def _units(scene: Scene, outline: Outline, rows: _Rows, *, is_chosen: bool) -> Iterator[_Unit]:
    """Yield the units of the level in order."""
    share = _SHARE.of(scene.revision)
    order = _ordered(scene, outline)
    names = filter(rows.is_name, order)
    has_doc = bool(outline.doc) and (not scene.sparing or scene.count(rows.documented) <= share // 2)

    def symbols() -> Iterator[_Unit]:
        yield from (_Unit(index) for index in islice(names, _BEFORE_DOC))
        if has_doc:
            yield _DOC
        yield from map(_Unit, names)
        details = (_Unit(index, form) for form in (SHORTEST, SHORT, FULL, DOCUMENTED) for index in order)
        for unit in details:
            if unit.form == SHORTEST and rows.is_name(unit.index):
                continue
            if scene.sparing and rows.spent.tokens + rows.gain(unit) > share:
                return
            yield unit

    if not is_chosen:
        yield from symbols()
        return
    most = max(_NEAR_FLOOR, share // _PART) if scene.sparing or outline.symbols else scene.budget
    near = ((tokens, _Unit(line, is_line=True)) for tokens, line in _first_of(text_level.lines_around(scene), most))
    counted = ((0 if unit.is_doc else rows.gain(unit), unit) for unit in symbols())
    yield from (unit for _, unit in interleaved(((1, near), (_PART - 1, counted))))


def _first_of(lines: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Yield lines up to the first that exceeds so many tokens in all."""
    for tokens, line in lines:
        most -= tokens
        if most < 0:
            return
        yield tokens, line


def _ordered(scene: Scene, outline: Outline) -> list[int]:
    """Sort the symbols: around the place, outer, public and near ones first; each after the one around it."""
    at = scene.place.line + 1
    inside: set[int] = set()
    for inner in around(outline, at):
        index = inner
        while index != TOP and index not in inside:
            inside.add(index)
            index = outline.symbols[index].parent

    def key(index: int) -> tuple[bool, int, bool, int, int]:
        symbol = outline.symbols[index]
        distance = max(symbol.first_line - at, at - symbol.last_line, 0)
        return index not in inside, symbol.depth, not symbol.public, distance, index

    return sorted(range(len(outline.symbols)), key=key)


def ladder(scene: Scene, *, to_lines: bool = False) -> Ladder:
    """Return the outlines of at most the scene's budget.

    Args:
        to_lines: whether lines in full come after the outline, up to the whole text.
    """
    instead = instead_of_lines(scene)
    if instead is not None:
        return single(instead)
    if scene.revision.is_listing or (to_lines and scene.revision.notice):
        return text_level.ladder(scene)
    outline = scene.outline or Outline(tier="indentation")
    is_chosen = scene.place.line > 0 or not outline.symbols
    taken: list[_Unit] = []

    def texts() -> Iterator[Spent | None]:
        rows = _Rows(scene, outline)
        units = _units(scene, outline, rows, is_chosen=is_chosen)
        if to_lines:
            units = chain(units, (_Unit(line, is_line=True) for _, line in text_level.lines_around(scene)))
        yield None if outline.symbols else rows.spent
        for unit in units:
            rows.take(unit)
            taken.append(unit)
            yield rows.spent

    def show(units: int) -> RenderedView:
        rows = _Rows(scene, outline, counts=False)
        for unit in taken[:units]:
            rows.take(unit)
        text = rows.text()
        start, end = rows.near
        first, last = (start + 1, end) if start < end else (scene.place.line + 1, scene.place.line + 1)
        offset = scene.revision.first_line - 1
        is_whole = not to_lines and (rows.are_all or (rows.are_all_names and scene.sparing))
        return RenderedView(
            text=text,
            tokens=scene.count(text),
            first_line=first + offset,
            last_line=last + offset,
            whole=is_whole and (bool(outline.symbols) or end - start == len(scene.revision.lines)),
        )

    whole = text_level.whole(scene) if to_lines else None
    return filled(texts(), scene.budget, show, whole)


def render(scene: Scene) -> RenderedView:
    """Render the outline; empty if not even "..." fits."""
    instead = instead_of_lines(scene)
    if instead is not None:
        return instead
    if scene.revision.is_listing:
        return text_level.render(scene)
    rendered = ladder(scene).within(scene.budget)
    if rendered is not None:
        return rendered
    outline = scene.outline or Outline(tier="indentation")
    head = heading(outline, len(scene.revision.lines))
    text = f"{head}, {len(outline.symbols)} symbols" if outline.symbols else head
    return one_line((text, head), scene.budget, scene.count, whole=not outline.symbols)
