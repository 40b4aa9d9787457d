"""The second and third tier of outlines, for texts that no grammar reads: `ctags`, then indentation.

The second tier uses Universal Ctags, if it is installed: its command line is made and its answer read here, but
`runtime.worker.forking.outlining` runs it. The third tier takes indentation and the words that begin a declaration in
many languages. It needs no language, takes linear time, and is bounded, so it may run anywhere on any text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from ...core.text import cut_line
from . import extraction
from .languages import LANGUAGES, Language
from .model import SYMBOLS, Declared, Kind, Outline, Tier, nested

LINES: Final = 100_000
"""Number of lines that are read by the third tier."""
_DEEPEST: Final = 2
"""Deepest level of blocks that are included, counted from 0."""
_LINE_CHARS: Final = 400
"""Characters of a line that are read."""
_TAB: Final = 8
_DECLARED: Final = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([^)]*\))?|unsafe|extern"
    r"|inline|virtual|override|open|sealed|data|local|const|partial)\s+)*"
    r"(?P<word>class|interface|protocol|struct|enum|trait|impl|record|object|module|namespace|package|type"
    r"|def|defn|defun|defmodule|function|func|fun|fn|sub|proc|procedure|macro)\s+(?P<name>[\w.:$?!-]+)"
)
_KINDS: Final[dict[str, Kind]] = {
    "class": "class",
    "record": "class",
    "object": "class",
    "interface": "interface",
    "protocol": "interface",
    "struct": "struct",
    "impl": "struct",
    "enum": "enum",
    "trait": "trait",
    "type": "type",
    "module": "module",
    "namespace": "module",
    "package": "module",
    "defmodule": "module",
    "macro": "macro",
}
_WORD: Final = re.compile(r"[^\W\d][\w.-]*")
_CLOSING: Final = re.compile(r"[\])}>;,.]*\s*(?:end|fi|done|esac|else|#.*|//.*)?[\])};:,]*")
"""Lines that only end or divide a block."""


class _Block(NamedTuple):
    """A line that may begin a block: its number from 1, its indentation in columns, its declaration."""

    number: int
    indent: int
    text: str
    kind: Kind
    name: str


class IndentationOutliner:
    """The third tier as an `Outliner`, for tests and for places without a better one."""

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
        """See `Outliner.outline`."""
        return outline_by_indentation(text())


def outline_by_indentation(text: bytes) -> Outline:
    """Outline the lines that begin a declaration, or that others are indented under."""
    lines = text.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return Outline(
        tier="indentation",
        lines=len(lines),
        symbols=nested(_declared(lines[:LINES])),
        complete=len(lines) <= LINES,
    )


def _declared(lines: list[str]) -> Iterator[Declared]:
    """Yield each line that begins a block, with the last line of its block."""
    opened: list[_Block] = []
    last = 0
    for number, line in enumerate(lines, 1):
        text = cut_line(line, _LINE_CHARS).strip()
        if not text:
            continue
        indent = _indent(line)
        closes = _CLOSING.fullmatch(text) is not None
        while opened and (indent < opened[-1].indent or (indent == opened[-1].indent and not closes)):
            yield from _told(opened.pop(), last)
        last = number
        if not closes and len(opened) <= _DEEPEST:
            opened.append(_Block(number, indent, text, *_kind_and_name(text)))
            # Statements of a function do not belong in an outline; its declarations do.
            if opened[-1].kind == "block" and any(block.kind == "function" for block in opened):
                opened.pop()
    while opened:
        yield from _told(opened.pop(), last)


def _indent(line: str) -> int:
    blank = line[: len(line) - len(line.lstrip())]
    return len(blank.expandtabs(_TAB))


def _kind_and_name(text: str) -> tuple[Kind, str]:
    if declared := _DECLARED.match(text):
        return _KINDS.get(declared["word"], "function"), declared["name"].rstrip(".:")
    word = _WORD.search(text)
    return "block", word[0] if word else text


def _told(block: _Block, last: int) -> Iterator[Declared]:
    """Yield the block, if it is a declaration or contains something."""
    if block.kind != "block" or last > block.number:
        yield Declared(block.kind, block.name, block.number, last + 1, block.number, last, block.text)


# --- the second tier: ctags ------------------------------------------------------------------------------------------


_KINDS_OF_TAGS: Final[dict[str, Kind]] = {
    "class": "class",
    "interface": "interface",
    "protocol": "interface",
    "struct": "struct",
    "union": "struct",
    "enum": "enum",
    "trait": "trait",
    "implementation": "extension",
    "typedef": "type",
    "type": "type",
    "alias": "type",
    "function": "function",
    "func": "function",
    "subroutine": "function",
    "procedure": "function",
    "prototype": "function",
    "method": "method",
    "singletonMethod": "method",
    "constructor": "method",
    "macro": "macro",
    "define": "macro",
    "constant": "constant",
    "variable": "variable",
    "property": "property",
    "module": "module",
    "namespace": "module",
    "package": "module",
    "chapter": "heading",
    "section": "heading",
    "subsection": "heading",
    "subsubsection": "heading",
    "key": "key",
    "table": "key",
    "object": "key",
    "target": "function",
    "selector": "rule",
    "id": "element",
}
"""The kinds of ctags that are included; it has many more."""
_COMMENTS: Final = {"Make": "#", "Perl": "#", "R": "#", "Tcl": "#", "Elixir": "#", "SQL": "--", "Haskell": "--"}
MODES: Final = ("--_interactive=sandbox", "--_interactive")
"""Modes in which ctags reads the text from its input. The first is sandboxed, if this ctags was built for it."""


def ctags_command(program: str, mode: str) -> tuple[str, ...]:
    """Return the command line of a ctags that takes requests as JSON lines on its input."""
    return (program, mode, "--fields=+neKSl", "--extras=-F", "--sort=no")


def ctags_request(path: str, text: bytes) -> bytes:
    """Return the request to send for a text.

    Only the name of the file tells the language.
    """
    name = path.replace("\\", "/").rpartition("/")[2].replace("\n", "")
    head = {"command": "generate-tags", "filename": name, "size": len(text)}
    return msgspec.json.encode(head) + b"\n" + text


class _Tag(msgspec.Struct, frozen=True):
    """The fields of a line of the answer.

    `end` is the last line if it is known, else 0.
    """

    type: str = msgspec.field(name="_type", default="")
    name: str = ""
    kind: str = ""
    language: str = ""
    line: int = 0
    end: int = 0
    signature: str | None = None
    access: str = ""


_TAG: Final = msgspec.json.Decoder(_Tag)


def outline_by_ctags(answer: bytes, text: bytes, language: Language | None) -> Outline | None:
    """Make the outline from an answer.

    Returns None if ctags does not know the language.
    """
    tags = list(_tags(answer))
    if not tags:
        return None
    lines = text.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    style = language.comment if language else _COMMENTS.get(tags[0].language, "//")
    return Outline(
        tier="ctags",
        language=language.name if language else tags[0].language.casefold(),
        lines=len(lines),
        doc=extraction.at_top(lines, style),
        symbols=nested(_declared_by_tags(tags, lines, style)),
        complete=len(tags) <= SYMBOLS,
    )


def _tags(answer: bytes) -> Iterator[_Tag]:
    for line in answer.split(b"\n"):
        with suppress(ValueError):
            tag = _TAG.decode(line)
            if tag.type == "tag" and _kind(tag) is not None:
                yield tag


def _kind(tag: _Tag) -> Kind | None:
    # In Python a member with a signature is a method; others are fields.
    return "method" if tag.kind == "member" and tag.signature is not None else _KINDS_OF_TAGS.get(tag.kind)


def _declared_by_tags(tags: Sequence[_Tag], lines: Sequence[str], style: str) -> Iterator[Declared]:
    for index, tag in enumerate(tags):
        kind = _kind(tag)
        if kind is None or not tag.name or not 0 < tag.line <= len(lines):
            continue
        last = max(min(tag.end, len(lines)), tag.line)
        row = LANGUAGES.get(tag.language.casefold())
        is_hidden = row is not None and row.hidden_name is not None and row.hidden_name.match(tag.name)
        # Several tags on a line get different places, in the order of ctags.
        start = tag.line * SYMBOLS + min(index, SYMBOLS - 1)
        yield Declared(
            kind,
            tag.name,
            start,
            (last + 1) * SYMBOLS,
            tag.line,
            last,
            lines[tag.line - 1],
            extraction.above(lines, tag.line - 1, style),
            not is_hidden and tag.access not in {"private", "protected"},
        )
