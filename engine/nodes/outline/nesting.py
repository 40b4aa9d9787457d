"""From declarations in any order to the symbols of an outline: what is in what, qualified names, what is public.

Pure, and bounded: the same for every tier. Must not know who found the declarations. Called by each tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...cutting import cut_line
from .model import TOP, Kind, Symbol

SYMBOLS: Final = 5_000
"""Symbols of one outline at most."""
NAME_CHARS: Final = 100
SIGNATURE_CHARS: Final = 200
DOC_CHARS: Final = 120
_DEEPEST: Final = 20
_QUALIFIED_CHARS: Final = 300
_CLASSES: Final[frozenset[Kind]] = frozenset({"class", "interface", "struct", "enum", "trait"})
_CALLABLES: Final[frozenset[Kind]] = frozenset({"function", "method"})


class Declared(NamedTuple):
    """A declaration that was found. `start` and `end` are its place in any one unit; lines count from 1.

    `public` is what the declaration says of itself, whatever is around it.
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


def one_line(text: str, limit: int) -> str:
    """The text with all white space as single blanks, within `limit` characters."""
    return cut_line(" ".join(text[: 4 * limit].split()), limit)


def nested(declared: Iterable[Declared]) -> tuple[Symbol, ...]:
    """The first `SYMBOLS` of them in their order, each in the innermost that is around it.

    Of several that begin and end in the same place the first stays.
    """
    ordered = sorted(declared, key=lambda found: (found.start, -found.end))
    symbols: list[Symbol] = []
    around: list[tuple[int, int]] = []
    place = None
    for found in ordered:
        if (found.start, found.end) == place:
            continue
        place = (found.start, found.end)
        while around and around[-1][1] <= found.start:
            around.pop()
        if len(around) > _DEEPEST:
            continue
        if len(symbols) == SYMBOLS:
            break
        symbols.append(_symbol(found, around[-1][0] if around else TOP, len(around), symbols))
        around.append((len(symbols) - 1, found.end))
    return tuple(symbols)


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
        last_line=max(found.first_line, found.last_line),
        signature=one_line(found.signature, SIGNATURE_CHARS).rstrip(" {:"),
        parent=parent,
        depth=depth,
        doc=one_line(found.doc, DOC_CHARS),
        public=found.public and is_open,
    )
