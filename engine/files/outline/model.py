"""What an outline is: symbols with their lines, imports, references; and the port through which one is asked for.

Plain data that crosses processes. Must not know how an outline is made. Used by the levels of detail, by positions, by
overviews of a repository, and by whatever makes outlines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

from msgspec import Struct, field

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
