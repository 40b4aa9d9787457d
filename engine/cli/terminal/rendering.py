"""Text as a terminal shows it: styles, wrapping, Markdown, code, diffs and folds. Pure."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, cast

from rich.cells import cell_len

from ...core.diff import Opcode, hunks, opcodes
from ...core.execution import LeftOut, TextChange
from ...core.text import CONTINUED, legible_line, plural

# Text with the style it is shown in, and the escape sequences that a terminal draws it with.
#
# A style is a name for what a text is; how it looks is decided here alone. Texts in fragments hold no control
# character but newline and tab: whoever makes one of a text from elsewhere makes its controls visible first. Pure.

Fragment = tuple[str, str]
"""A style and a text."""

LOOK: Final = "look:"
"""Begins a style that is itself the parameters of an escape sequence; only what renders Markdown makes one."""
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
"""The parameters of the escape sequence (SGR) by style; any other style is shown as it is."""


def painted(fragments: Iterable[Fragment], in_colour: bool) -> str:
    """The fragments as one text for a terminal; without any escape sequence where `in_colour` is False."""
    return "".join(_painted(_look(style) if in_colour else None, text) for style, text in fragments)


def _look(style: str) -> str | None:
    return style.removeprefix(LOOK) if style.startswith(LOOK) else _LOOKS.get(style)


def _painted(look: str | None, text: str) -> str:
    if look is None:
        return text
    # Line by line, so that a look that stays behind on a terminal ends with its line.
    lines = text.split("\n")
    return "\n".join(f"\x1b[{look}m{line}\x1b[0m" if line else "" for line in lines)


def indented(fragments: Iterable[Fragment], indent: str, at_start: bool) -> list[Fragment]:
    """The fragments with `indent` before each line that holds something.

    Args:
        at_start: whether the first of them begins a line.
    """
    result: list[Fragment] = []
    for style, text in fragments:
        for line in io.StringIO(text, newline="\n"):
            if at_start and line != "\n":
                result.append(("", indent))
            result.append((style, line))
            at_start = line.endswith("\n")
    return result


# highlighting:
# Code in colours. Pure, and the only module that knows the library that tells tokens apart, which is loaded late.

HIGHLIGHTED_CHARS: Final = 50_000
"""A longer source stays plain, because nobody waits for its colours."""

Highlight = Callable[[str], list[Fragment]]
"""Divides a source into fragments that say the same."""


def plain(source: str) -> list[Fragment]:
    """The source without colours."""
    return [("", source)]


def python(source: str) -> list[Fragment]:
    """The source with a style for each of its tokens."""
    if len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in _lexer().get_tokens_unprocessed(source)]


def coloured(source: str, language: str) -> list[Fragment]:
    """The source with a style for each of its tokens; plain where the language is unknown."""
    lexer = _lexer_of(language)
    if lexer is None or len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in lexer.get_tokens_unprocessed(source)]


@cache
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer  # only where something is shown in colours

    return PythonLexer()


@cache
def _lexer_of(language: str) -> Any:
    from pygments import lexers  # as above
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language)
    except ClassNotFound:
        return None


@cache
def _style(token: Any) -> str:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String  # as above

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


# wrapping:
# Lines of fragments that fit a terminal: wrapped between words, with what goes on below the beginning of its line.
#
# A word that is longer than a line is divided. Widths are those of terminals, where some characters take two cells.
# Tabs become spaces, because where a tab ends depends on where its line begins. Pure. Called by `markdown`,
# `replies`, `folds` and `transcript`.

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


# markdown:
# The session's own answers, which are Markdown for editors, as a terminal shows them.
#
# What the answers are made of, and no more: paragraphs, items of a list, code within a line, and fenced blocks. Prose
# is wrapped between words; of a block of columns, a line that is too wide goes on below, where a column begins, so
# that a narrow terminal shows a command whole. Text of files stays as it is. Pure. Called by `transcript`.

_FENCE: Final = re.compile(r"(`{3,})(\w*)\Z")
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)( ?)(.+?)\2\1(?!`)")
_ITEM: Final = re.compile(r"(?:- |\d+\. )")
_GAP: Final = re.compile(r" {2,}")

_DEEPER: Final = "    "
"""Before what of a line of columns goes on below it."""


Markdown = Callable[[str], list[Fragment]]
"""Shows a text of Markdown that holds no control character but newline and tab."""


def shown_markdown(
    text: str, width: int | None = None, in_colour: bool = False, highlight: Highlight = plain
) -> list[Fragment]:
    """The text as fragments, ending in a newline.

    Args:
        text: Markdown without control characters but newline and tab.
        width: cells of a line; None where nothing has to be wrapped.
        in_colour: whether a style shows what is code; else its marks stay.
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
    """The line, in parts that fit where a gap between its columns lets it be divided."""
    while width is not None and cell_len(line) > width:
        gaps = [gap for gap in _GAP.finditer(line) if line[: gap.start()].strip() and gap.end() < len(line)]
        if not gaps:
            break
        gap = next((gap for gap in reversed(gaps) if cell_len(line[: gap.start()]) <= width), gaps[0])
        yield line[: gap.start()]
        line = _DEEPER + line[gap.end() :]
    yield line


def _wrapped(line: str, width: int | None, in_colour: bool) -> list[Fragment]:
    """A line of prose, wrapped between words; what goes on of an item of a list stands below its text."""
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
    """Words, the space between them, and code, which is one piece."""
    at = 0
    for code in _CODE.finditer(line):
        yield from (("", text) for text in _WORDS.findall(line[at : code.start()]))
        yield ("code", code[3]) if in_colour else ("", code[0])
        at = code.end()
    yield from (("", text) for text in _WORDS.findall(line[at:]))


# layout:
# Where on the screen the next text goes: whether a line has begun, and what the last block belongs to.
#
# Blocks are divided by an empty line, which is written before the second one, so that none stands at the end. Pure
# but for what it remembers. Owned by a transcript.


class Layout:
    """The end of what was written since the user typed last."""

    def __init__(self) -> None:
        self.at_start = True
        """Whether the next character begins a line."""
        self._is_begun = False
        self._block: object = None

    def begin(self) -> None:
        """The user has typed: the screen is at the start of a line, and nothing was written yet."""
        self.at_start, self._is_begun, self._block = True, False, None

    def leave(self) -> None:
        """Whatever comes next is a block of its own."""
        self._block = None

    def finish_line(self) -> list[Fragment]:
        """What brings the screen to the start of a line."""
        return self.said([] if self.at_start else [("", "\n")])

    def whole(self, block: object, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Text that belongs to `block`, with what divides it from the block before."""
        return [*self.enter(block), *self.said(fragments)]

    def enter(self, block: object) -> list[Fragment]:
        """What goes between the last block and this one: the end of a line, and an empty line."""
        if block == self._block:
            return []
        self._block = block
        gap = "" if not self._is_begun else "\n" if self.at_start else "\n\n"
        return self.said([("", gap)])

    def said(self, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Text that follows where the last one ended."""
        result = [(style, text) for style, text in fragments if text]
        if result:
            self.at_start, self._is_begun = result[-1][1].endswith("\n"), True
        return result


# folds:
# What a model reads, as a person is shown it: the beginning, the end, and a line that says how to see the rest.
#
# The beginning is shown as it comes; of what follows only the last lines are kept here, because the whole result is
# on the timeline. Pure. Used by `transcript`.

HEAD_LINES: Final = 8
TAIL_LINES: Final = 3
"""With the line between them a folded result has 12 lines."""
_SHOWN_LINES: Final = HEAD_LINES + 1 + TAIL_LINES


class Fold:
    """The result of one statement, or a part of it.

    Args:
        statement: its number; None where there is none to open.
        indent: before each line.
        width: cells of a line; None where nothing is wrapped.
    """

    def __init__(self, statement: int | None, indent: str, width: int | None) -> None:
        self.statement = statement
        self._indent = indent
        self._width = width
        self._count = 0
        self._last: deque[Line] = deque(maxlen=_SHOWN_LINES - HEAD_LINES)
        self._line: Line = []
        self.is_folded = False
        """Whether lines were left out, once it has ended."""

    @property
    def open_line(self) -> Line:
        """The line that has not ended yet, as it may be shown meanwhile."""
        return self._fitted(self._line)[-1] if self._line else []

    def add(self, fragments: list[Fragment]) -> list[Fragment]:
        """What is to be shown now."""
        *whole, self._line = [*lines_of([*self._line, *fragments, ("", "\n")])] or [[]]
        if fragments and fragments[-1][1].endswith("\n"):
            whole, self._line = [*whole, *([self._line] if self._line else [])], []
        return self._take(whole)

    def end(self) -> list[Fragment]:
        """The rest: what was kept, and before it how much is left out."""
        shown = self._take([self._line] if self._line else [])
        self._line = []
        hidden = self._count - HEAD_LINES
        if hidden > len(self._last):
            self.is_folded = True
            tail = list(self._last)[-TAIL_LINES:]
            return [*shown, ("quiet", self._indent + self._said(hidden - len(tail)) + "\n"), *joined(tail)]
        return [*shown, *joined(self._last)]

    def _said(self, count: int) -> str:
        opened = "" if self.statement is None else f": Ctrl-O or /open {self.statement}"
        return f"... {count:,} more {plural(count, 'line')}{opened}"

    def _take(self, lines: list[Line]) -> list[Fragment]:
        shown: list[Line] = []
        for line in (part for whole in lines for part in self._fitted(whole)):
            self._count += 1
            if self._count <= HEAD_LINES:
                shown.append(line)
            else:
                self._last.append(line)
        return joined(shown)

    def _fitted(self, line: Line) -> list[Line]:
        whole = lines_of(indented([*line, ("", "\n")], self._indent, at_start=True)) or [[]]
        return whole if self._width is None else wrap_line(whole[0], self._width)


# changes:
# A changed file as a coloured diff: its name, how much changed, and each region with the numbers of its lines.
#
# Pure; text of files may hold anything, so every line is made legible. Called by `transcript` and by questions.

_Line = tuple[str, int, str]

CONTEXT: Final = 3
"""Equal lines that are shown around those that differ; what comes may have more."""
_MARKS: Final = {"removed": "-", "added": "+", "": " "}


def diff(name: str, changes: Sequence[TextChange], note: str = "") -> list[Fragment]:
    """The change of the file `name`: every line that differs, as far as `changes` have them.

    Args:
        note: what has to be said of it besides, such as that its content is no text.
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
    grown = 0
    own_ends = _have_own_ends(changes)
    for change in changes:
        old, new = (_split(text, own_ends) for text in (change.old, change.new))
        for hunk in hunks(opcodes(old, new), CONTEXT):
            yield [line for code in hunk for line in _lines(code, change.line, grown, old, new)]
        grown += len(new) - len(old)


def _lines(code: Opcode, first: int, grown: int, old: Sequence[str], new: Sequence[str]) -> Iterator[_Line]:
    """Style, number and text of each line: a removed one has the number that it had, any other the one it has now."""
    if code.tag == "equal":
        for at in range(code.j1, code.j2):
            yield "", first + grown + at, _legible(new[at])
        return
    for at in range(code.i1, code.i2):
        yield "removed", first + at, _legible(old[at])
    for at in range(code.j1, code.j2):
        yield "added", first + grown + at, _legible(new[at])


def _have_own_ends(changes: Sequence[TextChange]) -> bool:
    """Whether all lines end in CRLF: then that is how this file ends its lines, and no change hides in it."""
    texts = [text for change in changes for text in (change.old, change.new) if text]
    return all(text.count("\n") == text.count("\r\n") > 0 for text in texts)


def _split(text: str | None, own_ends: bool) -> list[str]:
    lines = io.StringIO(text or "", newline="\n")
    return [line.replace("\r\n", "\n") if own_ends else line for line in lines]


def _legible(line: str) -> str:
    r"""Without the end of the line where that is a newline; `\r` is seen, because a change may be just that."""
    text = line.removesuffix("\n")
    return legible_line(text) + ("" if text != line else " (no newline at the end)")
