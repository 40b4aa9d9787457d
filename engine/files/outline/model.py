"""What an outline is: symbols with their lines, imports, references; and the port through which one is asked for.

Plain data that crosses processes. Must not know how an outline is made. Used by the levels of detail, by positions, by
overviews of a repository, and by whatever makes outlines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ...core.text import cut_line

Tier = Literal["tree-sitter", "ctags", "indentation"]
"""What made an outline."""

TIERS: Final[tuple[Tier, ...]] = ("tree-sitter", "ctags", "indentation")
"""The best first; the last one never fails."""

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
"""What a symbol is. An extension adds to a type (`impl` of Rust); a block is what indentation alone tells of."""

TOP: Final = -1
"""The `parent` of a symbol that is in no other."""


class Symbol(Struct, frozen=True, array_like=True):
    """One declaration, heading or key.

    `qualified` is the name behind those of the symbols around it, joined by dots. Lines count from 1, and `last_line`
    is at least `first_line`; a decorator above belongs to it where the language says so. `signature` is the
    declaration's own text on one line, without its body. `parent` is the index of the symbol that this one is in,
    always smaller than its own; TOP for none. `depth` is the number of symbols around it. `doc` is the first sentence
    of what documents it. `public` says whether others are meant to use it.
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
    """What a text declares. `symbols` are in the order of their first lines, what is around before what is within.

    `language` is a name of `languages.LANGUAGES`, or the one ctags gave, empty where none is known. `lines` is the
    number of lines of the text. `doc` is the first paragraph of what documents all of it, on one line. `imports` are
    the modules or files that it names, as it names them, in their order and each once; `from_outside` has those that
    are none of its own package's or folder's, nor of what comes with the language. `references` counts the identifiers
    that it uses and does not declare, where that was asked for.
    `complete` is False where a bound cut it short, `has_errors` says that the text is not well-formed in its language.
    `is_provisional`: a better one is being made, beside statements and ticks.
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
    """Whoever makes outlines, bounded in time, and keeps the latest."""

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
        """The outline of a text. Never raises for whatever the text holds; takes a few seconds at the very most.

        Args:
            text: gives the text in UTF-8, its lines ended by a newline; called where it is not known already.
            digest: of the text; the same digest and path give the same outline.
            path: its name or any path that ends in it, which tells the language.
            tier: what made this outline before and is to make it again. It says itself (`Outline.tier`) where that
                could not be, and a later tier made it.
            references: whether these are counted, which takes a third of the time, for an overview of many files.
            patient: whether it may take ten times as long, because nobody waits for it.
        """
        ...


# packing:
# An outline as the data of a payload, within its bytes: what is outer and public first.
#
# Pure. Packed in the host (`preparing.outline`), unpacked by ViewHandle.


def packed(outline: Outline, most: int) -> bytes:
    """The outline in at most `most` bytes (1,000 or more); where symbols are left out, it is not `complete`."""
    data = msgspec.json.encode(outline)
    room = most
    while len(data) > most:
        symbols = _first(outline.symbols, room)
        kept = outline if symbols else replace(outline, imports=(), from_outside=(), doc="")
        data = msgspec.json.encode(replace(kept, symbols=symbols, references={}, complete=False))
        room = min(room * 9 // 10, room - (len(data) - most))
    return data


def unpacked(data: bytes) -> Outline:
    """What `packed` made. Raises ValueError for anything else."""
    try:
        outline = msgspec.json.decode(data, type=Outline)
    except msgspec.DecodeError as error:
        raise ValueError(f"no outline: {error}") from None
    if any(not TOP <= symbol.parent < index for index, symbol in enumerate(outline.symbols)):
        raise ValueError("no outline: a symbol is in one that comes after it")
    return outline


def _first(symbols: tuple[Symbol, ...], room: int) -> tuple[Symbol, ...]:
    """The outer symbols, public ones first, that take about `room` bytes, in their order."""
    order = sorted(range(len(symbols)), key=lambda index: (symbols[index].depth, not symbols[index].public, index))
    kept: list[int] = []
    for index in order:
        room -= len(msgspec.json.encode(symbols[index])) + 1
        if room < 0:
            break
        kept.append(index)
    # What is outer comes first in that order, so whatever is kept is in something that is kept, too.
    places = {TOP: TOP} | {index: place for place, index in enumerate(sorted(kept))}
    return tuple(replace(symbols[index], parent=places[symbols[index].parent]) for index in sorted(kept))


# requests:
# What is asked of a parser process and what it answers, as records: pieces of a message, each short enough to be
# sent.
#
# A record says of which message it is a piece. So one that was left half-sent, because somebody died or was
# interrupted, spoils no later one: whoever receives drops what does not continue. Pure. Used by `worker.outlining`
# and `worker.outlines`; the zygote sends LOST where a process ended between two records.

RECORD_BYTES: Final = 1 << 16
"""Of a record at most, head and all."""
LARGEST: Final = 24 << 20
"""Bytes of one message at most."""
LOST: Final = b"\0"
"""The process that may have had a request has ended."""
_HEAD: Final = 8
_FIRST: Final = 1
_LAST: Final = 2


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Make the outline of a text in UTF-8 by this tier; `patient` says that nobody waits for it."""

    tier: Tier
    path: str
    text: bytes
    references: bool = False
    patient: bool = False


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The outline, or why this tier could make none."""

    outline: Outline | None
    reason: str = ""


_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUEST: Final = msgspec.msgpack.Decoder(Request)
_REPLY: Final = msgspec.msgpack.Decoder(Reply)


def records(number: int, message: Request | Reply) -> Iterator[bytes]:
    """The message number `number` in pieces."""
    body = _ENCODER.encode(message)
    size = RECORD_BYTES - _HEAD
    for start in range(0, len(body), size):
        mark = (_FIRST if start == 0 else 0) | (_LAST if start + size >= len(body) else 0)
        yield (number << 2 | mark).to_bytes(_HEAD, "little") + body[start : start + size]


class Pieces:
    """Puts records together again."""

    def __init__(self) -> None:
        self._number = -1
        self._body = bytearray()

    def feed(self, record: bytes) -> tuple[int, bytes] | None:
        """The number and the body of the message that is complete now. What does not continue one is dropped."""
        head = int.from_bytes(record[:_HEAD], "little")
        number, mark = head >> 2, head & (_FIRST | _LAST)
        if mark & _FIRST:
            self._number, self._body = number, bytearray()
        if number != self._number or len(record) <= _HEAD or len(self._body) > LARGEST:
            return None
        self._body += record[_HEAD:]
        if not mark & _LAST:
            return None
        self._number = -1
        return number, bytes(self._body)


def request_of(body: bytes) -> Request:
    """Raises ValueError for anything else."""
    return _REQUEST.decode(body)


def reply_of(body: bytes) -> Reply:
    """Raises ValueError for anything else."""
    return _REPLY.decode(body)


# finding:
# Finds a symbol by the text that a person or a model writes for it: `"class Foo"`, `"Foo.bar"`, `"## Install"`.
#
# Pure. Must not know what a view is. Called where a position is resolved.

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


# nesting:
# From declarations in any order to the symbols of an outline: what is in what, qualified names, what is public.
#
# Pure, and bounded: the same for every tier. Must not know who found the declarations. Called by each tier.

SYMBOLS: Final = 5_000
"""Symbols of one outline at most."""
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
