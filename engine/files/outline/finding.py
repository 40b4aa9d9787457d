"""Finds a symbol by the text that a person or a model writes for it: `"class Foo"`, `"Foo.bar"`, `"## Install"`.

Pure. Must not know what a view is. Called where a position is resolved.
"""

from __future__ import annotations

import difflib
import re
from typing import Final, NamedTuple

from .model import Kind, Outline, Symbol

NEAREST: Final = 3
"""How many names are told where none fits."""
_COMPARED: Final = 2_000
"""Names that are compared for likeness: more would be felt."""
_LIKENESS: Final = 0.5
_SEPARATORS: Final = re.compile(r"::|->|[.#/]")
_TAIL: Final = re.compile(r"\s*(\(.*)?[:{(]?\s*$", re.DOTALL)
_HEADING: Final = re.compile(r"#{1,6}\s+")

_CALLABLES: Final[frozenset[Kind]] = frozenset({"function", "method", "macro"})
_TYPES: Final[frozenset[Kind]] = frozenset({"class", "interface", "struct", "enum", "trait", "type"})
_WORDS: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("def", "fn", "func", "fun", "function", "method", "sub", "macro"), _CALLABLES),
    **dict.fromkeys(("class", "struct", "interface", "enum", "trait", "protocol", "type", "record", "object"), _TYPES),
    **dict.fromkeys(("module", "mod", "namespace", "package"), frozenset[Kind]({"module"})),
    **dict.fromkeys(("const", "let", "var", "val"), frozenset[Kind]({"constant", "variable", "property"})),
    **dict.fromkeys(("impl", "extension"), _TYPES),
    **dict.fromkeys(("heading", "section"), frozenset[Kind]({"heading"})),
    "key": frozenset[Kind]({"key"}),
}
"""What a word before a name says of the kind."""
_NOISE: Final = frozenset({"async", "export", "default", "public", "private", "static", "abstract", "pub", "final"})


class FoundSymbol(NamedTuple):
    """The symbol, or None and the qualified names that come nearest."""

    symbol: Symbol | None
    nearest: tuple[str, ...] = ()


def find_symbol(outline: Outline, wanted: str) -> FoundSymbol:
    """The symbol that `wanted` means; of several the first of the outermost.

    A qualified name may leave out what is around it, and a kind before it only chooses between symbols of one name.
    """
    kinds, name = _parsed(wanted)
    if not name:
        return FoundSymbol(None)
    for fold in (str, str.casefold):
        of_name = [symbol for symbol in outline.symbols if _fits(fold(_plain(symbol.qualified)), fold(name))]
        of_kind = [symbol for symbol in of_name if symbol.kind in kinds] or of_name
        if of_kind:
            return FoundSymbol(min(of_kind, key=lambda symbol: symbol.depth))
    return FoundSymbol(None, _nearest(outline, name))


def _parsed(wanted: str) -> tuple[frozenset[Kind], str]:
    """The kinds that the words before the name allow, and the name with dots."""
    text = " ".join(wanted.split())
    if heading := _HEADING.match(text):
        return _WORDS["heading"], text[heading.end() :]
    kinds: frozenset[Kind] = frozenset()
    while (parts := text.split(" ", 1))[1:] and (parts[0] in _NOISE or parts[0] in _WORDS):
        kinds, text = _WORDS.get(parts[0], kinds), parts[1]
    if " " not in text or "(" in text:
        text = _TAIL.sub("", text)
    return kinds, _plain(text)


def _plain(name: str) -> str:
    return _SEPARATORS.sub(".", name).strip(".")


def _fits(qualified: str, name: str) -> bool:
    return qualified == name or qualified.endswith("." + name)


def _nearest(outline: Outline, name: str) -> tuple[str, ...]:
    """Those whose own name, or whole name, is most like it, best first."""
    own = name.rpartition(".")[2].casefold()
    by_name: dict[str, str] = {}
    for symbol in outline.symbols[:_COMPARED]:
        by_name.setdefault(symbol.name.casefold(), symbol.qualified)
        by_name.setdefault(symbol.qualified.casefold(), symbol.qualified)
    within = [qualified for known, qualified in by_name.items() if own in known]
    alike = difflib.get_close_matches(own, by_name, NEAREST, _LIKENESS)
    return tuple(dict.fromkeys([*(by_name[known] for known in alike), *within]))[:NEAREST]
