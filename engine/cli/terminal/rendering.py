"""Text as a terminal shows it: styles, wrapping, code, Markdown of our own answers, and diffs. Pure.

A style names what a text is; only this module decides how it looks. Fragments contain no control character except
newline and tab: the caller makes the controls of foreign text visible first. Called by `transcript`, `questions` and
the other modules that show text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, cast

from rich.cells import cell_len

from ...core.diff import Opcode, hunks, opcodes
from ...core.execution import LeftOut, TextChange
from ...core.text import CONTINUED, legible_line

Fragment = tuple[str, str]
"""A style and a text."""

LOOK: Final = "look:"
"""Starts a style that itself is the parameters of an escape sequence. Only `replies` makes one."""
_LOOKS: Final = {
    "quiet": "2",
    "strong": "1",
    "user": "1",
    "thinking": "2;3",
    "stderr": "33",
    "error": "31",
    "notice": "33",
    "added": "32",
    "removed": "31",
    "place": "36",
    "code": "36",
    "keyword": "35",
    "string": "32",
    "number": "36",
    "comment": "2",
    "defined": "34",
}
"""The parameters of the escape sequence (SGR) of each style. Any other style is shown plain."""


def painted(fragments: Iterable[Fragment], in_colour: bool) -> str:
    """Return the fragments as one text for a terminal.

    If `in_colour` is False, it contains no escape sequence.
    """
    return "".join(_painted(_look(style) if in_colour else None, text) for style, text in fragments)


def _look(style: str) -> str | None:
    return style.removeprefix(LOOK) if style.startswith(LOOK) else _LOOKS.get(style)


def _painted(look: str | None, text: str) -> str:
    if look is None:
        return text
    # Line by line, so that a style cannot continue on the next line.
    lines = text.split("\n")
    return "\n".join(f"\x1b[{look}m{line}\x1b[0m" if line else "" for line in lines)


def indented(fragments: Iterable[Fragment], indent: str, at_start: bool) -> list[Fragment]:
    """Put `indent` before each line that is not empty.

    Args:
        at_start: whether the first fragment begins a line.
    """
    result: list[Fragment] = []
    for style, text in fragments:
        for line in io.StringIO(text, newline="\n"):
            if at_start and line != "\n":
                result.append(("", indent))
            result.append((style, line))
            at_start = line.endswith("\n")
    return result


# Wrapping: lines that fit a terminal. A word that is longer than a line is split. Widths are those of terminals, where
# some characters take two cells. Tabs become spaces, because the end of a tab depends on where its line begins.

_WORDS: Final = re.compile(r"\s+|\S+")
_NARROW: Final = 12
"""The fewest cells of a line for wrapping."""
_TAB: Final = 8

Line = list[Fragment]
"""A line without its newline."""


def lines_of(fragments: Iterable[Fragment]) -> list[Line]:
    """Split fragments into lines. A last line without a newline counts."""
    lines: list[Line] = [[]]
    for style, text in fragments:
        for piece in io.StringIO(text, newline="\n"):
            if piece != "\n":
                lines[-1].append((style, piece.removesuffix("\n")))
            if piece.endswith("\n"):
                lines.append([])
    return lines if lines[-1] else lines[:-1]


def joined(lines: Iterable[Line]) -> list[Fragment]:
    """Join lines, each with its newline."""
    return [fragment for line in lines for fragment in (*line, ("", "\n"))]


def wrapped(fragments: Iterable[Fragment], width: int | None, hang: str = "") -> list[Fragment]:
    """Wrap whole lines.

    Args:
        width: cells of a line; None for no wrapping.
        hang: goes before a continuation, after the line's own indentation.
    """
    kept = list(fragments)
    return kept if width is None else joined(part for line in lines_of(kept) for part in wrap_line(line, width, hang))


def wrap_line(line: Line, width: int, hang: str = "") -> list[Line]:
    """Split a line into parts that fit."""
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
    """Split a word by newlines: `first` cells, then `others` cells a line."""
    room = first
    for style, piece in word:
        rest = piece
        while cell_len(rest) > room:
            head = _fitting(rest, room)
            if head:
                yield style, rest[:head]
            elif room == others:
                break  # not even one character fits
            yield "", "\n"
            rest, room = rest[head:], others
        yield style, rest
        room -= cell_len(rest)


def words_of(pieces: Iterable[Fragment]) -> Iterator[tuple[str, Line]]:
    """Yield the words, each with the space before it.

    A word is a sequence of fragments without space between them.
    """
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
    """Split a statement's line into parts of at most `width` cells.

    Prefers a space near the end of a part.
    """
    head = ""
    while cell_len(head + line) > width:
        most = max(_fitting(line, width - cell_len(head)), 1)
        near = line.rfind(" ", most // 2, most) + 1
        cut = near if line[:near].strip() else most
        yield head + line[:cut].rstrip()
        line, head = line[cut:], CONTINUED
    yield head + line


def _fitting(line: str, cells: int) -> int:
    """Count the characters that fit."""
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


# Code in colours. The library is imported late, only if something is shown in colours.

HIGHLIGHTED_CHARS: Final = 50_000
"""A longer source stays plain, because highlighting it would take too long."""

Highlight = Callable[[str], list[Fragment]]
"""Splits a source into fragments of the same text."""


def plain(source: str) -> list[Fragment]:
    """Return the source without colours."""
    return [("", source)]


def python(source: str) -> list[Fragment]:
    """Return the source with a style for each token."""
    if len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in _lexer().get_tokens_unprocessed(source)]


def coloured(source: str, language: str) -> list[Fragment]:
    """Return the source with a style for each token.

    It stays plain if the language is unknown.
    """
    lexer = _lexer_of(language)
    if lexer is None or len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in lexer.get_tokens_unprocessed(source)]


@cache
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer

    return PythonLexer()


@cache
def _lexer_of(language: str) -> Any:
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language)
    except ClassNotFound:
        return None


@cache
def _style(token: Any) -> str:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    for parent, style in (
        (Comment, "comment"),
        (Keyword, "keyword"),
        (Operator.Word, "keyword"),
        (String, "string"),
        (Number, "number"),
        (Name.Function, "defined"),
        (Name.Class, "defined"),
        (Name.Decorator, "defined"),
    ):
        if token in parent:
            return style
    return ""


# Markdown of the session's own answers: paragraphs, list items, inline code and fenced blocks. Prose is wrapped between
# words. In a block of columns, a line that is too wide continues below at the start of a column, so that a narrow
# terminal shows a command in one piece. Replies of models, with all of Markdown, are rendered by `replies`.

_FENCE: Final = re.compile(r"(`{3,})(\w*)\Z")
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)( ?)(.+?)\2\1(?!`)")
_ITEM: Final = re.compile(r"(?:- |\d+\. )")
_GAP: Final = re.compile(r" {2,}")

_DEEPER: Final = "    "
"""Goes before the continuation of a line of columns."""


Markdown = Callable[[str], list[Fragment]]
"""Shows Markdown that contains no control character except newline and tab."""


def shown_markdown(
    text: str, width: int | None = None, in_colour: bool = False, highlight: Highlight = plain
) -> list[Fragment]:
    """Return Markdown as fragments that end in a newline.

    Args:
        text: Markdown without control characters except newline and tab.
        width: cells of a line; None for no wrapping.
        in_colour: whether a style marks code; otherwise its backquotes stay.
    """
    shown: list[Fragment] = []
    lines = iter(text.rstrip("\n").split("\n"))
    for line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            shown += _wrapped(line, width, in_colour)
        elif fence[2] == "text":
            shown += [("", f"{part}\n") for row in _block(lines, fence[1]) for part in _folded(row, width)]
        else:
            source = "\n".join(_block(lines, fence[1]))
            shown += [*(highlight(source) if fence[2] == "python" else plain(source)), ("", "\n")]
    return shown


def _block(lines: Iterator[str], fence: str) -> Iterator[str]:
    for line in lines:
        if line == fence:
            return
        yield line


def _folded(line: str, width: int | None) -> Iterator[str]:
    """Split a line at the gaps between its columns, so that the parts fit."""
    while width is not None and cell_len(line) > width:
        gaps = [gap for gap in _GAP.finditer(line) if line[: gap.start()].strip() and gap.end() < len(line)]
        if not gaps:
            break
        gap = next((gap for gap in reversed(gaps) if cell_len(line[: gap.start()]) <= width), gaps[0])
        yield line[: gap.start()]
        line = _DEEPER + line[gap.end() :]
    yield line


def _wrapped(line: str, width: int | None, in_colour: bool) -> list[Fragment]:
    """Wrap a line of prose. A list item continues below its text."""
    item = _ITEM.match(line)
    indent = " " * len(item[0]) if item else ""
    wrapped: list[Fragment] = []
    used = 0
    for space, word in words_of(_markdown_pieces(line, in_colour)):
        cells = sum(cell_len(text) for _, text in word)
        if width is not None and used > len(indent) and used + len(space) + cells > width:
            wrapped += [("", f"\n{indent}"), *word]
            used = len(indent) + cells
        else:
            wrapped += [("", space), *word]
            used += len(space) + cells
    return [*wrapped, ("", "\n")]


def _markdown_pieces(line: str, in_colour: bool) -> Iterator[Fragment]:
    """Yield words, the space between them, and code as one piece."""
    at = 0
    for code in _CODE.finditer(line):
        yield from (("", text) for text in _WORDS.findall(line[at : code.start()]))
        yield ("code", code[3]) if in_colour else ("", code[0])
        at = code.end()
    yield from (("", text) for text in _WORDS.findall(line[at:]))


# A changed file as a coloured diff. A file can contain anything, so every line is made legible.

_Line = tuple[str, int, str]

CONTEXT: Final = 3
"""Equal lines that are shown around those that differ."""
_MARKS: Final = {"removed": "-", "added": "+", "": " "}


def diff(name: str, changes: Sequence[TextChange], note: str = "") -> list[Fragment]:
    """Return the change of the file `name`: each changed line with its number.

    Args:
        note: an additional remark, such as that the content is not text.
    """
    hunks_shown = list(_hunks(changes))
    styles = [style for hunk in hunks_shown for style, _, _ in hunk]
    is_new = any(change.old is None for change in changes)
    more = next((change.left_out for change in changes if change.left_out), LeftOut(0, 0))
    added, removed = styles.count("added") + more.added, styles.count("removed") + more.removed
    counts = f"  +{added} -{removed}" if changes else ""
    result: list[Fragment] = [("strong", f"{legible_line(name)}{' (new file)' if is_new else ''}{counts}\n")]
    result += [("notice", legible_line(line) + "\n") for line in filter(None, note.split("\n"))]
    width = max((len(str(at)) for hunk in hunks_shown for _, at, _ in hunk), default=1)
    for number, hunk in enumerate(hunks_shown):
        if number:
            result.append(("place", "...\n"))
        result += [(style, f"{at:>{width}} {_MARKS[style]} {text}\n") for style, at, text in hunk]
    return result


def _hunks(changes: Sequence[TextChange]) -> Iterator[list[_Line]]:
    growth = 0
    own_ends = _have_own_ends(changes)
    for change in changes:
        old, new = (_split(text, own_ends) for text in (change.old, change.new))
        for hunk in hunks(opcodes(old, new), CONTEXT):
            yield [line for code in hunk for line in _lines(code, change.line, growth, old, new)]
        growth += len(new) - len(old)


def _lines(code: Opcode, first: int, growth: int, old: Sequence[str], new: Sequence[str]) -> Iterator[_Line]:
    """Yield style, number and text of each line.

    A removed line has its old number; any other line has its new one.
    """
    if code.tag == "equal":
        for at in range(code.j1, code.j2):
            yield "", first + growth + at, _legible(new[at])
        return
    for at in range(code.i1, code.i2):
        yield "removed", first + at, _legible(old[at])
    for at in range(code.j1, code.j2):
        yield "added", first + growth + at, _legible(new[at])


def _have_own_ends(changes: Sequence[TextChange]) -> bool:
    """Whether all lines end in CRLF.

    Then CRLF is this file's line end, and is not shown as a change.
    """
    texts = [text for change in changes for text in (change.old, change.new) if text]
    return all(text.count("\n") == text.count("\r\n") > 0 for text in texts)


def _split(text: str | None, own_ends: bool) -> list[str]:
    lines = io.StringIO(text or "", newline="\n")
    return [line.replace("\r\n", "\n") if own_ends else line for line in lines]


def _legible(line: str) -> str:
    r"""Make a line legible, without its newline.

    A `\r` is visible, because it may be the only change.
    """
    text = line.removesuffix("\n")
    return legible_line(text) + ("" if text != line else " (no newline at the end)")
