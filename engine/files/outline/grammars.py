"""Macros of C and C++ that stand where their grammars know no word, put out of sight before a text is parsed.

`class API_EXPORT Name {` is an error to a grammar, which has no preprocessor, and the class is lost. Nearly all of
these are names in capitals, in three places: between `class` and its name, in front of a declaration, and alone on a
line that begins at the margin. Each is replaced by as many blanks, so every other letter stays in its place. Pure.
Called by `grammars`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, cast, get_args

import tree_sitter

from . import extraction
from .extraction import counted, without_attributes
from .languages import LANGUAGES, Language
from .model import DOC_CHARS, NAME_CHARS, SIGNATURE_CHARS, Declared, Kind, Outline, nested, one_line, with_sections

MACRO_LANGUAGES: Final = frozenset({"c", "cpp"})
_MACRO: Final = rb"[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?"
_WHERE: Final = (
    re.compile(
        rb"\b(?:class|struct|union|enum)[ \t]+(" + _MACRO + rb")(?=[ \t]+[A-Za-z_][\w:<>]*(?:[ \t]+final)?\s*[:{])"
    ),
    re.compile(
        rb"^[ \t]*(" + _MACRO + rb")(?=[ \t]+[A-Za-z_][\w:<>]*(?:[ \t]+|[ \t]*[*&]+[ \t]*)[A-Za-z_]\w*[ \t]*\()", re.M
    ),
    re.compile(rb"^([A-Z][A-Z0-9_]{3,})[ \t]*$", re.M),
)


def without_macros(source: bytes, language: str) -> bytes:
    """The text as the grammar of that language is to see it: as long as it was, and the lines where they were."""
    if language in MACRO_LANGUAGES:
        for where in _WHERE:
            source = where.sub(_blanked, source)
    return source


def _blanked(found: re.Match[bytes]) -> bytes:
    start, end = found.span(1)
    before, after = start - found.start(), end - found.start()
    return found[0][:before] + b" " * (end - start) + found[0][after:]


# grammars:
# The first tier: an outline from a tree that a grammar of tree-sitter makes, by the language's own queries.
#
# Grammars are C code: some texts crash one, or keep it busy for minutes. So this is called in a process that may die
# (`worker.outlining`), which `worker.outlines` replaces; imported there alone, because nobody else needs the library.
#
# A query names what it captures. The declaration has its kind for a name (`@class`), of which what follows a dot is
# its name where the text has none (`.text`: all ahead of the body is). `@name` and `@body`, where the signature ends,
# if they are not the fields of these names; `@parameters`, with which it ends where there is no body; `@owner`, the
# type that a method stands outside of; `@level` of a heading; `@doc` of what is `@documented`; `@about` for the whole
# text; `@import`; `@package`. A name that begins with an underscore is for the query alone. Of several patterns that
# fit one declaration the first in the file counts.

BYTES: Final = 3 << 20
"""A longer text is outlined up to here; data and generated code are what is longer."""
PATIENT_BYTES: Final = 8 << 20
"""The same where nobody waits. The tree of so much Python takes 300 MB."""
_CHUNK: Final = 1 << 16
_MATCHES: Final = 40_000
_QUERIES: Final = Path(__file__).with_name("queries")
_KINDS: Final = frozenset(cast(tuple[str, ...], get_args(Kind)))
_WRAPPERS: Final = frozenset(
    {"decorated_definition", "export_statement", "template_declaration", "ambient_declaration", "type_declaration"}
)
"""Nodes around a declaration that belong to it."""
_ANONYMOUS: Final = "object_creation_expression"
_DECORATED: Final = "decorated_definition"
_SHORT_KINDS: Final = frozenset({"constant", "variable", "property", "key", "element"})
"""Of these the first line is the signature: what follows is a value."""
_OPEN: Final = frozenset({"ruby", "lua"})
"""Languages whose blocks begin with no sign: where no `@parameters` end the signature, its first line is it."""
_DATA_KINDS: Final = frozenset({"key", "rule", "element"})

Stop = Callable[[], bool]
"""Whether it has taken too long. Asked while a tree is made, and between searches: one that asks crashes this version
of the binding, so whoever calls this has to bound the time of the process as well."""


class GrammarError(Exception):
    """Raised where a grammar made no outline: it does not load, was stopped, or found nothing in a broken text."""


class _Grammar(NamedTuple):
    language: tree_sitter.Language
    declared: tree_sitter.Query
    words: tree_sitter.Query | None


def outline_by_grammar(
    text: bytes, language: Language, path: str, stop: Stop, *, references: bool = False, most: int = BYTES
) -> Outline:
    """The outline of the first `most` bytes of a text in UTF-8. Raises GrammarError."""
    grammar = loaded(language.name)
    # A part of a character at the end would be an error in the text.
    source = text if len(text) <= most else text[: text.rfind(b"\n", 0, most) + 1]
    tree = _parsed(grammar, without_macros(source, language.name), stop)
    matches = _Matches(source, language, grammar.declared, tree.root_node, stop)
    symbols = nested(with_sections(matches.declared, len(source), matches.rows))
    if not symbols and not matches.imports and tree.root_node.has_error:
        raise GrammarError("nothing was found in a text that is not well-formed")
    names = {symbol.name for symbol in symbols}
    return Outline(
        tier="tree-sitter",
        language=language.name,
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        doc=matches.doc,
        symbols=symbols,
        imports=extraction.told(map(extraction.plain, matches.imports)),
        from_outside=extraction.told(extraction.outside(matches.imports, language.name, path, matches.package)),
        references=_references(grammar, source, tree, names, stop) if references else {},
        complete=len(source) == len(text) and not matches.was_cut,
        has_errors=tree.root_node.has_error,
    )


@cache
def loaded(name: str) -> _Grammar:
    """The grammar of a language, with its queries; takes up to 0.2 s. Raises GrammarError where it cannot be loaded."""
    row = LANGUAGES[name]
    language = _language(row)
    try:
        declared = tree_sitter.Query(language, (_QUERIES / row.query_file).read_text("utf-8"))
        words = " ".join(f"({word})" for word in row.words)
        return _Grammar(language, declared, tree_sitter.Query(language, f"[{words}] @word") if words else None)
    except (OSError, ValueError) as error:
        raise GrammarError(f"the grammar of {name} ({row.wheel}) cannot be used: {error}") from error


def missing() -> list[str]:
    """The distributions whose grammars cannot be loaded, each with the reason."""
    found: dict[str, str] = {}
    for row in LANGUAGES.values():
        try:
            _language(row)
        except GrammarError as error:
            found.setdefault(row.wheel, str(error))
    return list(found.values())


def _language(row: Language) -> tree_sitter.Language:
    try:
        pointer: object = getattr(import_module(row.module), row.function)()
        return tree_sitter.Language(pointer)
    except (ImportError, AttributeError, OSError, ValueError) as error:
        raise GrammarError(f"{row.wheel} for {row.name}: {error}") from error


def _parsed(grammar: _Grammar, source: bytes, stop: Stop) -> tree_sitter.Tree:
    # From bytes, the binding parses without a look at the callback.
    def read(offset: int, _: object) -> bytes:
        return source[offset : offset + _CHUNK]

    def progress(_offset: int, _has_error: bool) -> bool:
        return stop()

    try:
        return tree_sitter.Parser(grammar.language).parse(read, progress_callback=progress)
    except ValueError as error:
        raise GrammarError(f"parsing was stopped: {error}") from error


def _references(grammar: _Grammar, source: bytes, tree: tree_sitter.Tree, own: set[str], stop: Stop) -> dict[str, int]:
    """How often the text uses each identifier that it does not declare; those most used."""
    if grammar.words is None or stop():
        return {}
    nodes = tree_sitter.QueryCursor(grammar.words).captures(tree.root_node)
    return counted((source[node.start_byte : node.end_byte] for node in nodes.get("word", ())), own)


class _Matches:
    """What the matches of a query say of a text."""

    def __init__(
        self, source: bytes, language: Language, query: tree_sitter.Query, root: tree_sitter.Node, stop: Stop
    ) -> None:
        self._source = source
        self._language = language
        self._lines = source.decode("utf-8", "replace").split("\n")
        self._docs: dict[int, str] = {}
        self._imports: list[tuple[int, str]] = []
        self.package = ""
        self.doc = ""
        cursor = tree_sitter.QueryCursor(query)
        cursor.set_max_start_depth(language.depth)
        found = cursor.matches(root)
        self.was_cut = len(found) > _MATCHES or stop()
        matches = [captured for _, captured in sorted(found[:_MATCHES], key=lambda match: match[0])]
        for captured in matches:
            self._note(captured)
        self.imports = [text for _, text in sorted(self._imports)]
        self.declared = [declared for captured in matches for declared in self._declarations(captured)]
        self.doc = self.doc or self._top()

    def _top(self) -> str:
        """What the comment at the top says, unless it is about the first declaration."""
        text = extraction.at_top(self._lines, self._language.comment)
        first = min(self.declared, key=lambda declared: declared.start, default=None)
        return "" if first is not None and first.doc and text.startswith(first.doc) else one_line(text, 4 * DOC_CHARS)

    @property
    def rows(self) -> int:
        """The number of lines of what was parsed."""
        return len(self._lines) - (not self._lines[-1])

    def _note(self, captured: dict[str, list[tree_sitter.Node]]) -> None:
        """What is no declaration."""
        for node in captured.get("import", ()):
            self._imports.append((node.start_byte, self._text(node)))
        for node in captured.get("import.text", ()):
            self._imports.append((node.start_byte, self._text(node).removeprefix("import").strip()))
        for node in captured.get("package", ()):
            self.package = self._text(node).removeprefix("package").strip()
        if "about" in captured and not self.doc:
            text = self._text(captured["about"][0]).strip("\"'")
            self.doc = one_line(extraction.paragraph(text), 4 * DOC_CHARS)
        if "documented" in captured:
            self._docs[captured["documented"][0].id] = extraction.first_sentence(self._text(captured["doc"][0]))

    def _declarations(self, captured: dict[str, list[tree_sitter.Node]]) -> Iterator[Declared]:
        for capture, nodes in captured.items():
            kind, _, named = capture.partition(".")
            if kind in _KINDS and not (kind == "method" and _is_anonymous(nodes[0])):
                yield self._declared(cast(Kind, kind), named, nodes[0], captured)

    def _declared(
        self, kind: Kind, named: str, node: tree_sitter.Node, captured: dict[str, list[tree_sitter.Node]]
    ) -> Declared:
        around = node
        while (parent := around.parent) is not None and parent.type in _WRAPPERS:
            around = parent
        start = node.start_byte if around.type == _DECORATED else around.start_byte
        signature = self._signature(kind, start, node, captured)
        name = self._name(named, signature, node, captured)
        first, last = around.start_point.row, self._last_row(around)
        doc = self._docs.get(node.id) or extraction.above(self._lines, first, self._language.comment)
        return Declared(
            kind,
            name,
            around.start_byte,
            around.end_byte,
            first + 1,
            last + 1,
            signature,
            doc,
            self._is_public(kind, name, signature),
            self._level(captured),
        )

    def _last_row(self, node: tree_sitter.Node) -> int:
        """The row of its last visible letter: some grammars count the white space behind it in."""
        first, (row, column) = node.start_point.row, node.end_point
        while row > first and not self._lines[row][:column].strip():
            row, column = row - 1, None
        return row

    def _signature(
        self, kind: Kind, start: int, node: tree_sitter.Node, captured: dict[str, list[tree_sitter.Node]]
    ) -> str:
        end = node.end_byte
        if body := self._body(node, captured):
            while (ahead := body.prev_sibling) is not None and ahead.type == "comment":
                body = ahead
            end = body.start_byte
        elif "parameters" in captured:
            end = captured["parameters"][0].end_byte
        text = self._source[start : min(end, start + 8 * SIGNATURE_CHARS)].decode("utf-8", "replace")
        if kind == "heading":
            return text.strip().split("\n", 1)[0]
        if kind not in _DATA_KINDS:
            text = without_attributes(text)
        is_value = kind in _SHORT_KINDS or (self._language.name in _OPEN and "parameters" not in captured)
        return text.lstrip().split("\n", 1)[0] if is_value else text

    def _body(self, node: tree_sitter.Node, captured: dict[str, list[tree_sitter.Node]]) -> tree_sitter.Node | None:
        if "body" in captured:
            return captured["body"][0]
        return None if self._language.name in _OPEN else node.child_by_field_name("body")

    def _name(
        self, named: str, signature: str, node: tree_sitter.Node, captured: dict[str, list[tree_sitter.Node]]
    ) -> str:
        if named == "text":
            return signature.strip()
        if named:
            return named
        found = captured["name"][0] if "name" in captured else node.child_by_field_name("name")
        name = self._text(found).strip().strip("\"'`") if found else signature
        owner = captured.get("owner")
        return f"{self._text(owner[0])}.{name}" if owner else name

    def _level(self, captured: dict[str, list[tree_sitter.Node]]) -> int:
        """The level of a heading from 1; 0 of what is none."""
        if "level" not in captured:
            return 0
        mark = self._text(captured["level"][0]).strip()
        if mark[:1] in "hH":
            return int(mark[1:])
        return mark.count("#") or (1 if mark[:1] == "=" else 2)

    def _is_public(self, kind: Kind, name: str, signature: str) -> bool:
        row = self._language
        if row.hidden_name is not None and row.hidden_name.match(name):
            return False
        if row.hidden is not None and row.hidden.match(signature):
            return False
        return row.shown is None or kind in {"method", "property"} or row.shown.match(signature) is not None

    def _text(self, node: tree_sitter.Node) -> str:
        end = min(node.end_byte, node.start_byte + 8 * max(NAME_CHARS, DOC_CHARS))
        return self._source[node.start_byte : end].decode("utf-8", "replace")


def _is_anonymous(node: tree_sitter.Node) -> bool:
    """Whether it belongs to a class without a name, which is a value of what is around it."""
    around = node.parent and node.parent.parent
    return around is not None and around.type == _ANONYMOUS
