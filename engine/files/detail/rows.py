"""Symbols as rows of text: where each stands, how deep, and what it is in one of three lengths.

Pure. A row begins with a digit and ends with a newline, so the counts of rows add up. Used by the levels that show
outlines.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...core.cutting import ELLIPSIS, cut_line
from ..outline.model import TOP, Kind, Outline, Symbol
from ..revision import Revision

SHORTEST, SHORT, FULL, DOCUMENTED = range(4)
"""A name with the word before it; a signature without values, on a short line; all of it; with what documents it."""
_LEAST: Final = 16
"""Tokens that even the smallest text may take at any level."""
_SHORT_CHARS: Final = 80
_FULL_CHARS: Final = 240
_DOC_CHARS: Final = 120
_BRACKETS: Final = 4
"""Characters more that a signature may have than the name, to stand for it."""
_NAME_CHARS: Final = 60
_INDENT: Final = "  "
VALUED: Final[frozenset[Kind]] = frozenset({"constant", "variable", "property", "key", "element"})
"""What has a value, and does nothing."""
READ_BY_VALUE: Final[frozenset[Kind]] = frozenset({"key", "element"})
"""Whose name says little without the value."""
_AS_WRITTEN: Final[frozenset[Kind]] = frozenset({*VALUED, "heading", "rule", "block", "extension"})
"""Of these what stands in the text says what they are."""
_LEFT_BY_LINES: Final = re.compile(r"(?<=[(\[]) |,? (?=[)\]])")
_COMMENT: Final = re.compile(r"\s(?:#|//).*$")
_OPEN: Final = re.compile(r"\s*(?:=\s*\w*)?[(\[{:=]+$")
_VALUE: Final = re.compile(r"(?<=[\w\]\"'?)])\s*(?:=(?![=>])|:=).*$")
_WORDS_AND_NAME: Final = re.compile(r"(?:::|[^(={:<\[])*")
_WORDS: Final = re.compile(r"(?:^|\s)(actor|mod|namespace|object|package|protocol|record|union)\s+$")
"""What a language calls what here is a class, a module or an interface."""


class Share(NamedTuple):
    """How many tokens a level may take of a text: one for so many bytes; for fewer of a small text, up to `floor`.

    Bytes stand for tokens, because counting all of a large file takes longer than its outline.
    """

    bytes_per_token: int
    floor: int
    bytes_per_token_of_small: int

    def of(self, revision: Revision) -> int:
        """The share of that text, in tokens, whatever the budget."""
        small = max(min(self.floor, revision.size // self.bytes_per_token_of_small), _LEAST)
        return max(revision.size // self.bytes_per_token, small)


def range_of(symbol: Symbol, offset: int = 0) -> str:
    """The symbol's lines: `12-40`, or `12` for one. `offset` is added to the numbers."""
    first, last = symbol.first_line + offset, symbol.last_line + offset
    return str(first) if first == last else f"{first}-{last}"


def row(symbol: Symbol, form: int, offset: int = 0, more: int = 0) -> str:
    """The symbol on one line: its range, a tab, what it is in that form, and how many below it are not shown."""
    indent = "" if symbol.kind == "heading" else _INDENT * symbol.depth
    left_out = f" (+{more})" if more else ""
    return f"{range_of(symbol, offset)}\t{indent}{text_of(symbol, form)}{left_out}\n"


def text_of(symbol: Symbol, form: int) -> str:
    """What the symbol is, on one line and never empty."""
    text = (_shortest, _short, _full, _documented)[form](symbol)
    return text or name_of(symbol)


def _full(symbol: Symbol) -> str:
    """The signature without the space that line breaks left in it."""
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
    """Of each symbol the number of those that are in it, at any depth."""
    below = [0] * len(outline.symbols)
    for index in range(len(below) - 1, -1, -1):
        parent = outline.symbols[index].parent
        if parent != TOP:
            below[parent] += 1 + below[index]
    return below


def around(outline: Outline, line: int) -> list[int]:
    """The indices of the symbols that line number `line` is in, the outermost first."""
    return [index for index, symbol in enumerate(outline.symbols) if symbol.first_line <= line <= symbol.last_line]


def heading(outline: Outline | None, lines: int) -> str:
    """What the text is, in a few words: `269 lines of python`."""
    said = f"{lines} {'line' if lines == 1 else 'lines'}"
    if outline is None:
        return said
    if outline.language:
        said += f" of {outline.language}"
    if outline.is_provisional:
        return said + ", outlined roughly until a parser has read it"
    if outline.has_errors:
        said += ", parsed in part"
    return said if outline.complete else said + ", of which a part is outlined"


def kind_and_name(symbol: Symbol) -> str:
    """The symbol in two words; of a heading, a key or an extension what stands in the text."""
    if symbol.kind in _AS_WRITTEN:
        return text_of(symbol, SHORTEST)
    word = _WORDS.search(symbol.signature.partition(symbol.name)[0]) if symbol.name else None
    return f"{word[1] if word else symbol.kind} {name_of(symbol)}"


def name_of(symbol: Symbol) -> str:
    """The symbol's name, never empty and not very long."""
    return cut_line(symbol.name, _NAME_CHARS) or symbol.kind
