"""Lines of fragments that fit a terminal: wrapped between words, with what goes on below the beginning of its line.

A word that is longer than a line is divided. Widths are those of terminals, where some characters take two cells.
Tabs become spaces, because where a tab ends depends on where its line begins. Pure. Called by `markdown`, `replies`,
`folds` and `transcript`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len

from ...core.text import CONTINUED
from .fragments import Fragment

_WORDS: Final = re.compile(r"\s+|\S+")
_NARROW: Final = 12
"""Cells that a line must have for anything to be wrapped."""
_TAB: Final = 8

Line = list[Fragment]
"""A line without its newline."""


def lines_of(fragments: Iterable[Fragment]) -> list[Line]:
    """The lines; the last one is what follows the last newline, where anything does."""
    lines: list[Line] = [[]]
    for style, text in fragments:
        for piece in io.StringIO(text, newline="\n"):
            if piece != "\n":
                lines[-1].append((style, piece.removesuffix("\n")))
            if piece.endswith("\n"):
                lines.append([])
    return lines if lines[-1] else lines[:-1]


def joined(lines: Iterable[Line]) -> list[Fragment]:
    """The lines as one sequence, each with its newline."""
    return [fragment for line in lines for fragment in (*line, ("", "\n"))]


def wrapped(fragments: Iterable[Fragment], width: int | None, hang: str = "") -> list[Fragment]:
    """Whole lines, wrapped.

    Args:
        width: cells of a line; None where nothing has to be wrapped.
        hang: goes before what continues a line, after the space that the line begins with.
    """
    kept = list(fragments)
    return kept if width is None else joined(part for line in lines_of(kept) for part in wrap_line(line, width, hang))


def wrap_line(line: Line, width: int, hang: str = "") -> list[Line]:
    """The line in parts that fit."""
    line = _without_tabs(line)
    text = "".join(piece for _, piece in line)
    if cell_len(text) <= width or width < _NARROW:
        return [line]
    margin = text[: len(text) - len(text.lstrip())] + hang
    if len(margin) > width // 2:
        margin = ""
    start: Line = [("", margin)] if margin else []
    parts: list[Line] = [[]]
    used, is_begun = 0, False
    for space, word in words_of(_pieces(line)):
        cells = sum(cell_len(piece) for _, piece in word)
        if is_begun and used + len(space) + cells > width:
            parts.append([*start])
            used = len(margin)
        elif space:
            parts[-1].append(("", space))
            used += len(space)
        for style, piece in _chopped(word, width - used, width - len(margin)):
            if piece == "\n":
                parts.append([*start])
                used = len(margin)
            else:
                parts[-1].append((style, piece))
                used += cell_len(piece)
        is_begun = True
    return parts


def _chopped(word: Line, first: int, others: int) -> Iterator[Fragment]:
    """The word, with newlines where it is longer than `first` cells, and then than `others`."""
    room = first
    for style, piece in word:
        rest = piece
        while cell_len(rest) > room:
            head = _fitting(rest, room)
            if head:
                yield style, rest[:head]
            elif room == others:
                break  # because not even one character fits
            yield "", "\n"
            rest, room = rest[head:], others
        yield style, rest
        room -= cell_len(rest)


def words_of(pieces: Iterable[Fragment]) -> Iterator[tuple[str, Line]]:
    """The words, each with the space before it: a word is whatever stands together without any."""
    space, word = "", list[Fragment]()
    for style, text in pieces:
        if not text.isspace():
            word.append((style, text))
        elif word:
            yield space, word
            space, word = text, []
        else:
            space += text
    if word:
        yield space, word


def divided_at(line: str, width: int) -> Iterator[str]:
    """A line of a statement in parts of at most `width` cells, divided after a space where one is near."""
    head = ""
    while cell_len(head + line) > width:
        most = max(_fitting(line, width - cell_len(head)), 1)
        near = line.rfind(" ", most // 2, most) + 1
        cut = near if line[:near].strip() else most
        yield head + line[:cut].rstrip()
        line, head = line[cut:], CONTINUED
    yield head + line


def _fitting(line: str, cells: int) -> int:
    """How many characters of the line fit."""
    used = 0
    for at, char in enumerate(line):
        used += cell_len(char)
        if used > cells:
            return at
    return len(line)


def _pieces(line: Line) -> Iterator[Fragment]:
    for style, text in line:
        yield from ((style, piece) for piece in _WORDS.findall(text))


def _without_tabs(line: Line) -> Line:
    if not any("\t" in text for _, text in line):
        return line
    result: Line = []
    at = 0
    for style, text in line:
        first, *others = text.split("\t")
        expanded = first
        at += cell_len(first)
        for other in others:
            gap = _TAB - at % _TAB
            expanded += " " * gap + other
            at += gap + cell_len(other)
        result.append((style, expanded))
    return result
