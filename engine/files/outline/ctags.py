"""The second tier: an outline from what the program `ctags` says of a text, where Universal Ctags is installed.

Pure: makes the command line and reads the answer. Must not run anything. Called by `worker.outlining`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from . import extraction
from .languages import LANGUAGES, Language
from .model import SYMBOLS, Declared, Kind, Outline, nested

_KINDS: Final[dict[str, Kind]] = {
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
"""Those of ctags' kinds that are told; it has many more."""
_COMMENTS: Final = {"Make": "#", "Perl": "#", "R": "#", "Tcl": "#", "Elixir": "#", "SQL": "--", "Haskell": "--"}
MODES: Final = ("--_interactive=sandbox", "--_interactive")
"""In these it reads the text from its input; in the first it may open nothing, where it was built for that."""


def command(program: str, mode: str) -> tuple[str, ...]:
    """What to run: it takes requests as lines of JSON on its input."""
    return (program, mode, "--fields=+neKSl", "--extras=-F", "--sort=no")


def request(path: str, text: bytes) -> bytes:
    """What to send to it. The name alone tells the language."""
    name = path.replace("\\", "/").rpartition("/")[2].replace("\n", "")
    head = {"command": "generate-tags", "filename": name, "size": len(text)}
    return msgspec.json.encode(head) + b"\n" + text


class _Tag(msgspec.Struct, frozen=True):
    """What is read of a line of its answer. `end` is the last line, where it knows that."""

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
    """The outline, None where it does not know the language."""
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
        symbols=nested(_declared(tags, lines, style)),
        complete=len(tags) <= SYMBOLS,
    )


def _tags(answer: bytes) -> Iterator[_Tag]:
    for line in answer.split(b"\n"):
        with suppress(ValueError):
            tag = _TAG.decode(line)
            if tag.type == "tag" and _kind(tag) is not None:
                yield tag


def _kind(tag: _Tag) -> Kind | None:
    # A member that has a signature is a method, in Python; others are fields.
    return "method" if tag.kind == "member" and tag.signature is not None else _KINDS.get(tag.kind)


def _declared(tags: Sequence[_Tag], lines: Sequence[str], style: str) -> Iterator[Declared]:
    for index, tag in enumerate(tags):
        kind = _kind(tag)
        if kind is None or not tag.name or not 0 < tag.line <= len(lines):
            continue
        last = max(min(tag.end, len(lines)), tag.line)
        row = LANGUAGES.get(tag.language.casefold())
        is_hidden = row is not None and row.hidden_name is not None and row.hidden_name.match(tag.name)
        # Of several on a line each has a place of its own, in the order in which ctags tells them.
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
