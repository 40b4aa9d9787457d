"""The second tier of outlines, for texts that no grammar reads: indentation.

It takes indentation and the words that begin a declaration in many languages. It needs no language, takes linear time,
and is bounded, so it may run anywhere on any text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...core.text import cut_line
from .model import Declared, Kind, Outline, Tier, nested

LINES: Final = 100_000
"""Number of lines that are read."""
_DEEPEST: Final = 2
"""Deepest level of blocks that are included, counted from 0."""
_LINE_CHARS: Final = 400
"""Characters of a line that are read."""
_TAB: Final = 8
_DECLARED: Final = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([^)]*\))?|unsafe|extern"
    r"|inline|virtual|override|open|sealed|data|local|const|partial)\s+)*"
    r"(?P<word>class|interface|protocol|struct|enum|trait|impl|record|object|module|namespace|package|type"
    r"|def|defn|defun|defmodule|function|func|fun|fn|sub|proc|procedure|macro)\s+(?P<name>[^\s\"'`,;<>\[\]{}|(]+)"
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
_WORD: Final = re.compile(r"[^\s\"'`,;<>\[\]{}|]*[^\W\d][^\s\"'`,;<>\[\]{}|]*")
"""A word with a letter, whole as in `core.text`: a part of one could be a part of a key."""
_END_SIGNS: Final = ".:;=,#@$&*!/\\-"
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
    """The second tier as an `Outliner`, for tests and for places without a better one."""

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
        return _KINDS.get(declared["word"], "function"), declared["name"].strip(_END_SIGNS)
    word = _WORD.search(text)
    return "block", word[0].strip(_END_SIGNS) if word else text


def _told(block: _Block, last: int) -> Iterator[Declared]:
    """Yield the block, if it is a declaration or contains something."""
    if block.kind != "block" or last > block.number:
        yield Declared(block.kind, block.name, block.number, last + 1, block.number, last, block.text)
