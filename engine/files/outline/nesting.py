"""From declarations in any order to the symbols of an outline: what is in what, qualified names, what is public.

Pure, and bounded: the same for every tier. Must not know who found the declarations. Called by each tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...core.cutting import cut_line
from .model import TOP, Kind, Symbol

SYMBOLS: Final = 5_000
"""Symbols of one outline at most."""
NAME_CHARS: Final = 100
SIGNATURE_CHARS: Final = 200
DOC_CHARS: Final = 120
_DEEPEST: Final = 20
_LEVELS: Final = 7
_QUALIFIED_CHARS: Final = 300
_CLASSES: Final[frozenset[Kind]] = frozenset({"class", "interface", "struct", "enum", "trait", "extension"})
_CALLABLES: Final[frozenset[Kind]] = frozenset({"function", "method"})
_VALUES: Final[frozenset[Kind]] = frozenset({"constant", "variable", "property"})


class Declared(NamedTuple):
    """A declaration that was found. `start` and `end` are its place in any one unit; lines count from 1.

    `public` is what the declaration says of itself, whatever is around it. `level` is a heading's, from 1.
    """

    kind: Kind
    name: str
    start: int
    end: int
    first_line: int
    last_line: int
    signature: str = ""
    doc: str = ""
    public: bool = True
    level: int = 0


def one_line(text: str, limit: int) -> str:
    """The text with all white space as single blanks, within `limit` characters."""
    return cut_line(" ".join(cut_line(text, 4 * limit).split()), limit)


def with_sections(declared: Iterable[Declared], end: int, lines: int) -> list[Declared]:
    """The same, with headings as long as their sections: up to the next of no lower level, or to `end`.

    `lines` is the number of lines of the text.
    """
    found = list(declared)
    headings = sorted((one for one in found if one.kind == "heading"), key=lambda one: one.start, reverse=True)
    if not headings:
        return found
    # Of each level the nearest heading below that ends a section of it: place and line.
    ends = dict.fromkeys(range(_LEVELS), (end, lines + 1))
    sections: list[Declared] = []
    for heading in headings:
        place, line = ends[min(heading.level, _LEVELS - 1)]
        sections.append(heading._replace(end=place, last_line=line - 1))
        for level in range(min(heading.level, _LEVELS - 1), _LEVELS):
            ends[level] = (heading.start, heading.first_line)
    return [one for one in found if one.kind != "heading"] + sections


def nested(declared: Iterable[Declared]) -> tuple[Symbol, ...]:
    """The first `SYMBOLS` of them in their order, each in the innermost that is around it.

    Of several with one name in one place the first stays.
    """
    symbols: list[Symbol] = []
    around: list[tuple[int, int]] = []
    unlike = {(found.start, -found.end, found.name): found for found in reversed(list(declared))}
    for found in sorted(unlike.values(), key=lambda found: (found.start, -found.end)):
        while around and around[-1][1] <= found.start:
            around.pop()
        if len(around) > _DEEPEST or (around and _is_local(found.kind, symbols[around[-1][0]].kind)):
            continue
        if len(symbols) == SYMBOLS:
            break
        symbols.append(_symbol(found, around[-1][0] if around else TOP, len(around), symbols))
        around.append((len(symbols) - 1, found.end))
    return tuple(symbols)


def _is_local(kind: Kind, outer: Kind) -> bool:
    """Whether it is a part of what a function does."""
    return outer in _CALLABLES and kind in _VALUES


def _symbol(found: Declared, parent: int, depth: int, symbols: list[Symbol]) -> Symbol:
    outer = None if parent == TOP else symbols[parent]
    name = one_line(found.name, NAME_CHARS)
    is_method = found.kind == "function" and outer is not None and outer.kind in _CLASSES
    is_open = outer is None or (outer.public and outer.kind not in _CALLABLES)
    return Symbol(
        kind="method" if is_method else found.kind,
        name=name,
        qualified=name if outer is None else cut_line(f"{outer.qualified}.{name}", _QUALIFIED_CHARS),
        first_line=found.first_line,
        last_line=max(found.first_line, min(found.last_line, outer.last_line if outer else found.last_line)),
        signature=one_line(found.signature, SIGNATURE_CHARS).rstrip(" {:;="),
        parent=parent,
        depth=depth,
        doc=one_line(found.doc, DOC_CHARS),
        public=found.public and is_open,
    )
