"""The first tier: outlines by tree-sitter grammars and the queries of each language.

Grammars are C code: some texts crash one, or keep it busy for minutes. So this runs in a process that may die
(`runtime.worker.forking.outlining`), which `runtime.worker.handles.outlines` replaces. Only that process imports it.

A query names its captures. A declaration has its kind as a name (`@class`); a part behind a dot is its name if the text
has none (`.text`: the text ahead of the body is). Other captures are `@name` and `@body`, where the signature ends, if
they are not the fields of these names; `@parameters`, which ends the signature without a body; `@owner`, the type of a
method outside it; `@level` of a heading; `@doc` of what is `@documented`; `@about` for the whole text; `@import`;
`@package`. Names with an underscore are for the query alone. If several patterns match a declaration, the first counts.
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
    """Return a text of C or C++ with blanks in place of macros that confuse the grammar.

    `class API_EXPORT Name {` is an error to a grammar, which has no preprocessor, so the class would be lost. Nearly
    all such macros are names in capitals in three places: between `class` and its name, in front of a declaration, and
    alone on a line at the margin. All other letters keep their places.
    """
    if language in MACRO_LANGUAGES:
        for where in _WHERE:
            source = where.sub(_blanked, source)
    return source


def _blanked(found: re.Match[bytes]) -> bytes:
    start, end = found.span(1)
    before, after = start - found.start(), end - found.start()
    return found[0][:before] + b" " * (end - start) + found[0][after:]


# --- outlines --------------------------------------------------------------------------------------------------------


BYTES: Final = 3 << 20
"""A longer text is outlined up to here; longer ones are data and generated code."""
PATIENT_BYTES: Final = 8 << 20
"""The limit with more time. The tree of this much Python takes 300 MB."""
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
"""The signature of these kinds is their first line: what follows is a value."""
_WORD_END: Final = re.compile(rb"[\s\"'`,;<>\[\]{}|]|\Z")
"""The end of a word as in `core.text`."""
_OPEN: Final = frozenset({"ruby", "lua"})
"""Languages whose blocks have no opening sign: without `@parameters`, the first line is the signature."""
_DATA_KINDS: Final = frozenset({"key", "rule", "element"})

Stop = Callable[[], bool]
"""Returns whether the time is up.

Called while a tree is made, and between searches. A query with such a callback crashes this version of the binding, so
the caller must also limit the time of the process.
"""


class GrammarError(Exception):
    """Raised if a grammar makes no outline: it does not load, was stopped, or found nothing in a broken text."""


class _Grammar(NamedTuple):
    language: tree_sitter.Language
    declared: tree_sitter.Query
    words: tree_sitter.Query | None


def outline_by_grammar(
    text: bytes, language: Language, path: str, stop: Stop, *, references: bool = False, most: int = BYTES
) -> Outline:
    """Outline the first `most` bytes of a UTF-8 text. Raises GrammarError."""
    grammar = loaded(language.name)
    # A split character at the end would be an error in the text.
    source = text if len(text) <= most else text[: text.rfind(b"\n", 0, most) + 1]
    tree = _parsed(grammar, without_macros(source, language.name), stop)
    matches = _Matches(source, language, grammar.declared, tree.root_node, stop)
    symbols = nested(with_sections(matches.declared, len(source), matches.rows))
    if not symbols and not matches.imports and tree.root_node.has_error:
        raise GrammarError("the text is malformed, and no symbol was found")
    names = {symbol.name for symbol in symbols}
    return Outline(
        tier="tree-sitter",
        language=language.name,
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        doc=matches.doc,
        symbols=symbols,
        imports=extraction.unique_names(map(extraction.plain, matches.imports)),
        from_outside=extraction.unique_names(extraction.outside(matches.imports, language.name, path, matches.package)),
        references=_references(grammar, source, tree, names, stop) if references else {},
        complete=len(source) == len(text) and not matches.was_cut,
        has_errors=tree.root_node.has_error,
    )


@cache
def loaded(name: str) -> _Grammar:
    """Load a language's grammar and queries; takes up to 0.2 s.

    Raises GrammarError.
    """
    row = LANGUAGES[name]
    language = _language(row)
    try:
        declared = tree_sitter.Query(language, (_QUERIES / row.query_file).read_text("utf-8"))
        words = " ".join(f"({word})" for word in row.words)
        return _Grammar(language, declared, tree_sitter.Query(language, f"[{words}] @word") if words else None)
    except (OSError, ValueError) as error:
        raise GrammarError(f"the grammar of {name} ({row.wheel}) cannot be used: {error}") from error


def missing() -> list[str]:
    """Return the distributions whose grammars cannot be loaded, with the reasons."""
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
    # Given bytes, the binding ignores the callback.
    def read(offset: int, _: object) -> bytes:
        return source[offset : offset + _CHUNK]

    def progress(_offset: int, _has_error: bool) -> bool:
        return stop()

    try:
        return tree_sitter.Parser(grammar.language).parse(read, progress_callback=progress)
    except ValueError as error:
        raise GrammarError(f"parsing was stopped: {error}") from error


def _references(grammar: _Grammar, source: bytes, tree: tree_sitter.Tree, own: set[str], stop: Stop) -> dict[str, int]:
    """Count identifiers that the text uses and does not declare.

    The most used ones.
    """
    if grammar.words is None or stop():
        return {}
    nodes = tree_sitter.QueryCursor(grammar.words).captures(tree.root_node)
    return counted((source[node.start_byte : node.end_byte] for node in nodes.get("word", ())), own)


class _Matches:
    """The facts in the matches of a query."""

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
        """Return the comment at the top, unless it is about the first declaration."""
        text = extraction.at_top(self._lines, self._language.comment)
        first = min(self.declared, key=lambda declared: declared.start, default=None)
        return "" if first is not None and first.doc and text.startswith(first.doc) else one_line(text, 4 * DOC_CHARS)

    @property
    def rows(self) -> int:
        """Number of lines of the parsed text."""
        return len(self._lines) - (not self._lines[-1])

    def _note(self, captured: dict[str, list[tree_sitter.Node]]) -> None:
        """Note a match that is not a declaration."""
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
        """Return the row of the last visible letter: some grammars include white space behind it."""
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
        # A grammar ends a value inside a word that may be a key, such as at `&`.
        if kind in _SHORT_KINDS and (word_end := _WORD_END.search(self._source, end)):
            end = word_end.start()
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
        """Return the level of a heading from 1; 0 for other nodes."""
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
    """Return whether a node belongs to a class without a name, which is a value."""
    around = node.parent and node.parent.parent
    return around is not None and around.type == _ANONYMOUS
