"""Outlines as plain data: symbols, imports, references.

How symbols nest, are found by name, and are packed.

Crosses processes. Must not know how an outline is made. Used by levels of detail, positions and overviews, and by all
tiers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ...core.text import cut_line

Tier = Literal["tree-sitter", "ctags", "indentation"]
"""What made an outline, best first; the last one never fails.

Only logs of earlier versions name `ctags`. Indentation makes such an outline again.
"""

Kind = Literal[
    "module",
    "class",
    "interface",
    "struct",
    "enum",
    "trait",
    "extension",
    "type",
    "function",
    "method",
    "macro",
    "constant",
    "variable",
    "property",
    "heading",
    "key",
    "rule",
    "element",
    "block",
]
"""The kind of a symbol. An extension adds to a type (`impl` of Rust); a block is known by indentation alone."""

TOP: Final = -1
"""The `parent` of an outermost symbol."""


class Symbol(Struct, frozen=True, array_like=True):
    """A declaration, heading or key.

    `qualified` is the name with those of the symbols around it, joined by dots. Lines count from 1, and `last_line` is
    at least `first_line`; a decorator above belongs to it if the language says so. `signature` is the declaration's
    text on one line, without its body. `parent` is the index of the symbol around it, always smaller than its own; TOP
    for none. `depth` is the number of symbols around it. `doc` is the first sentence of its documentation. `public`:
    others may use it.
    """

    kind: Kind
    name: str
    qualified: str
    first_line: int
    last_line: int
    signature: str
    parent: int = TOP
    depth: int = 0
    doc: str = ""
    public: bool = True


class Outline(Struct, frozen=True, kw_only=True):
    """The declarations of a text.

    `symbols` are sorted by first line, outer before inner. `language` is a name in `languages.LANGUAGES`, empty if
    unknown. `lines` is the number of lines of the text. `doc` is the first paragraph about the whole text, on one line.
    `imports` are the modules or files that it names, as spelled, in order, each once; `from_outside` are those of
    neither its own package or folder nor the standard library. `references` counts identifiers that it uses and does
    not declare, if requested. `complete` is False if a limit cut it short; `has_errors`: the text is not well-formed.
    `is_provisional`: a better outline is being made in the background.
    """

    tier: Tier
    language: str = ""
    lines: int = 0
    doc: str = ""
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    from_outside: tuple[str, ...] = ()
    references: dict[str, int] = field(default_factory=dict[str, int])
    complete: bool = True
    has_errors: bool = False
    is_provisional: bool = False

    @property
    def headings(self) -> tuple[Symbol, ...]:
        return tuple(symbol for symbol in self.symbols if symbol.kind == "heading")


class Outliner(Protocol):
    """Makes outlines within limits of time, and caches the latest."""

    def outline(
        self,
        text: Callable[[], bytes],
        *,
        digest: str,
        path: str,
        tier: Tier | None = None,
        references: bool = False,
        patient: bool = False,
    ) -> Outline:
        """Outline a text.

        Never raises, whatever the text; takes a few seconds at most.

        Args:
            text: returns the text in UTF-8, with a newline after each line; called if it is not cached.
            digest: of the text; the same digest and path give the same outline.
            path: its name or a path that ends in it, which tells the language.
            tier: the tier that made this outline before and should again. If it fails, a later tier makes the outline
                (see `Outline.tier`).
            references: whether to count them, for overviews; this takes a third of the time.
            patient: whether it may take ten times as long, because no one waits.
        """
        ...


# --- packing ---------------------------------------------------------------------------------------------------------


def packed(outline: Outline, most: int) -> bytes:
    """Encode the outline in at most `most` bytes (1,000 or more).

    Not `complete` if symbols are dropped.

    Outer and public symbols are kept first.
    """
    data = msgspec.json.encode(outline)
    room = most
    while len(data) > most:
        symbols = _first(outline.symbols, room)
        kept = outline if symbols else replace(outline, imports=(), from_outside=(), doc="")
        data = msgspec.json.encode(replace(kept, symbols=symbols, references={}, complete=False))
        room = min(room * 9 // 10, room - (len(data) - most))
    return data


def unpacked(data: bytes) -> Outline:
    """Decode a packed outline. Raises ValueError for anything else."""
    try:
        outline = msgspec.json.decode(data, type=Outline)
    except msgspec.DecodeError as error:
        raise ValueError(f"no outline: {error}") from None
    if any(not TOP <= symbol.parent < index for index, symbol in enumerate(outline.symbols)):
        raise ValueError("not an outline: a symbol is inside a later one")
    return outline


def _first(symbols: tuple[Symbol, ...], room: int) -> tuple[Symbol, ...]:
    """Return the outer symbols, public ones first, that take about `room` bytes, in order."""
    order = sorted(range(len(symbols)), key=lambda index: (symbols[index].depth, not symbols[index].public, index))
    kept: list[int] = []
    for index in order:
        room -= len(msgspec.json.encode(symbols[index])) + 1
        if room < 0:
            break
        kept.append(index)
    # Outer symbols come first in that order, so the parent of a kept symbol is kept, too.
    places = {TOP: TOP} | {index: place for place, index in enumerate(sorted(kept))}
    return tuple(replace(symbols[index], parent=places[symbols[index].parent]) for index in sorted(kept))


# --- finding ---------------------------------------------------------------------------------------------------------


SUGGESTED: Final = 5
"""Number of names that are suggested."""
_SEPARATORS: Final = re.compile(r"::|->|[.#/]")
_TAIL: Final = re.compile(r"\s*(\(.*)?[:{(]?\s*$", re.DOTALL)
_HEADING: Final = re.compile(r"#{1,6}\s+")

_TEXTS: Final[frozenset[Kind]] = frozenset({"heading", "key", "rule", "element", "block"})
"""Kinds whose names are texts, not identifiers."""
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
"""Kinds that a word before a name allows."""
_NOISE: Final = frozenset({"async", "export", "default", "public", "private", "static", "abstract", "pub", "final"})


class FoundSymbol(NamedTuple):
    """A symbol, or None and qualified names that may be meant."""

    symbol: Symbol | None
    suggested: tuple[str, ...] = ()


def find_symbol(outline: Outline, wanted: str) -> FoundSymbol:
    """Find a symbol by what a person or model writes: `"class Foo"`, `"Foo.bar"`, `"## Install"`.

    Of several the first of the outermost is returned. A qualified name may be incomplete at its beginning, and a kind
    only chooses between symbols of one name. Of a heading, a key or another text the whole name counts: who may guess
    must not find out a key in it part by part.
    """
    kinds, name = _parsed(wanted)
    symbol = _found(outline, kinds, name) if name else None
    return FoundSymbol(symbol, () if symbol or not name else _near(outline, name))


def _found(outline: Outline, kinds: frozenset[Kind], name: str) -> Symbol | None:
    for fold in (str, str.casefold):
        of_name = [symbol for symbol in outline.symbols if _fits(outline, symbol, fold(name), fold)]
        of_kind = [symbol for symbol in of_name if symbol.kind in kinds] or of_name
        if of_kind:
            return min(of_kind, key=lambda symbol: symbol.depth)
    return None


def _near(outline: Outline, name: str) -> tuple[str, ...]:
    """Return the symbols in the one whose name the name begins with; without such a one the outermost."""
    around = _found(outline, frozenset(), name.rpartition(".")[0])
    parent = TOP if around is None else outline.symbols.index(around)
    inside = [each.qualified for each in outline.symbols if each.parent == parent]
    return tuple(dict.fromkeys(inside))[:SUGGESTED]


def _parsed(wanted: str) -> tuple[frozenset[Kind], str]:
    """Return the kinds that words before the name allow, and the name with dots."""
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


def _fits(outline: Outline, symbol: Symbol, name: str, fold: Callable[[str], str]) -> bool:
    """Return whether a name is that of the symbol, with those of some symbols around it."""
    qualified, at = fold(_plain(symbol.name)), symbol.parent
    if symbol.kind not in _TEXTS and qualified.endswith(f".{name}"):  # `bar` of `Foo::bar`
        return True
    while qualified != name and at != TOP and len(qualified) < len(name):
        qualified, at = f"{fold(_plain(outline.symbols[at].name))}.{qualified}", outline.symbols[at].parent
    return qualified == name


# --- nesting ---------------------------------------------------------------------------------------------------------


SYMBOLS: Final = 5_000
"""Largest number of symbols in an outline."""
NAME_CHARS: Final = 100
SIGNATURE_CHARS: Final = 200
DOC_CHARS: Final = 120
_DEEPEST: Final = 20
_LEVELS: Final = 7
_QUALIFIED_CHARS: Final = 300
_CLASSES: Final[frozenset[Kind]] = frozenset({"class", "interface", "struct", "enum", "trait", "extension"})
_NESTING_CALLABLES: Final[frozenset[Kind]] = frozenset({"function", "method"})
_VALUES: Final[frozenset[Kind]] = frozenset({"constant", "variable", "property"})


class Declared(NamedTuple):
    """A declaration.

    `start` and `end` are positions in any unit; lines count from 1.

    `public` depends on the declaration alone. `level` is a heading's, from 1.
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
    """Return the text with single blanks as white space, within `limit` characters."""
    return cut_line(" ".join(cut_line(text, 4 * limit).split()), limit)


def with_sections(declared: Iterable[Declared], end: int, lines: int) -> list[Declared]:
    """Extend headings to their sections: up to the next heading of the same or a higher level, or `end`.

    `lines` is the number of lines of the text.
    """
    found = list(declared)
    headings = sorted((one for one in found if one.kind == "heading"), key=lambda one: one.start, reverse=True)
    if not headings:
        return found
    # For each level, where the nearest heading below ends its section: place and line.
    ends = dict.fromkeys(range(_LEVELS), (end, lines + 1))
    sections: list[Declared] = []
    for heading in headings:
        place, line = ends[min(heading.level, _LEVELS - 1)]
        sections.append(heading._replace(end=place, last_line=line - 1))
        for level in range(min(heading.level, _LEVELS - 1), _LEVELS):
            ends[level] = (heading.start, heading.first_line)
    return [one for one in found if one.kind != "heading"] + sections


def nested(declared: Iterable[Declared]) -> tuple[Symbol, ...]:
    """Nest the first `SYMBOLS` declarations by position, and name them.

    If several have one name in one place, the first is kept.
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
    """Return whether a declaration is a local value of a function."""
    return outer in _NESTING_CALLABLES and kind in _VALUES


def _symbol(found: Declared, parent: int, depth: int, symbols: list[Symbol]) -> Symbol:
    outer = None if parent == TOP else symbols[parent]
    name = one_line(found.name, NAME_CHARS)
    is_method = found.kind == "function" and outer is not None and outer.kind in _CLASSES
    is_open = outer is None or (outer.public and outer.kind not in _NESTING_CALLABLES)
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
