"""A model's reply while it arrives: Markdown, rendered block by block.

A block is final when the next one begins, because until then it may continue. The last block is shown below the
permanent text, and redrawn as it grows. A model must not control the terminal, and Markdown can spell any character
(`&#27;`). So controls are made visible after rendering. Pure. Used by `transcript`, only for a person.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import pairwise
from typing import Final, Protocol

from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from ...core.text import visible
from .rendering import LOOK, Fragment, Line, coloured, joined, lines_of, wrap_line, wrapped

_WIDEST: Final = 100
"""The most cells of a line of prose, because longer lines are hard to read."""
_THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.block_quote": "italic",
        "markdown.item.number": "none",
        "markdown.item.bullet": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.hr": "dim",
    }
)

_PARSER: Final = MarkdownIt().enable("table")
_CODE: Final = {"comment": "dim", "keyword": "magenta", "string": "green", "number": "cyan", "defined": "blue"}
"""The styles of `rendering`'s highlighting, readable on any background."""


class Streamed(Protocol):
    """A message that is still arriving: `Reply` or `Plain`."""

    def add(self, piece: str) -> list[Fragment]:
        """Take a piece, and return what is final."""
        ...

    def tail(self) -> list[Line]:
        """Return the unfinished lines, to be shown below for now."""
        ...

    def end(self) -> list[Fragment]:
        """Return the rest, when nothing more arrives."""
        ...


class Reply:
    """Markdown that is still arriving.

    `width` is read for each rendering, because a window can be resized.
    """

    def __init__(self, width: Callable[[], int | None], in_colour: bool) -> None:
        self._width = width
        self._in_colour = in_colour
        self._text = ""
        self._is_first = True

    def add(self, piece: str) -> list[Fragment]:
        self._text += piece
        if "\n" not in piece:
            return []
        *done, self._text = _blocks(self._text)
        return self._block("".join(done))

    def tail(self) -> list[Line]:
        return lines_of(self._rendered(self._text))

    def end(self) -> list[Fragment]:
        text, self._text = self._text, ""
        return self._block(text)

    def _block(self, text: str) -> list[Fragment]:
        shown = self._rendered(text)
        self._is_first = self._is_first and not shown
        return shown

    def _rendered(self, text: str) -> list[Fragment]:
        if not text.strip():
            return []
        gap: list[Line] = [] if self._is_first else [[]]
        return joined([*gap, *rendered(text, self._width() or _WIDEST, self._in_colour)])


class Plain:
    """Text in one style, such as a model's thinking: whole lines are final."""

    def __init__(self, style: str, width: Callable[[], int | None]) -> None:
        self._style = style
        self._width = width
        self._line = ""

    def add(self, piece: str) -> list[Fragment]:
        whole, newline, self._line = (self._line + piece).rpartition("\n")
        return wrapped([(self._style, whole + newline)], self._width()) if newline else []

    def tail(self) -> list[Line]:
        return wrap_line([(self._style, self._line)], self._width() or _WIDEST) if self._line else []

    def end(self) -> list[Fragment]:
        line, self._line = self._line, ""
        return wrapped([(self._style, line + "\n")], self._width()) if line else []


def rendered(text: str, width: int, in_colour: bool) -> list[Line]:
    """Render whole blocks of Markdown, with an empty line between them."""
    console = Console(
        width=width,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        theme=_THEME,
        legacy_windows=False,
    )
    shown: list[Line] = []
    for block in _blocks(text):
        lines = _block_lines(console, block, in_colour)
        shown += [[], *lines] if shown and lines else lines
    return shown


def _blocks(text: str) -> list[str]:
    """Split the text into blocks. All but the last are complete."""
    starts = [token.map[0] for token in _PARSER.parse(text) if token.level == 0 and token.map]
    lines = text.splitlines(keepends=True)
    places = [0, *(start for start in dict.fromkeys(starts) if start), len(lines)]
    return ["".join(lines[start:end]) for start, end in pairwise(places)]


def _block_lines(console: Console, text: str, in_colour: bool) -> list[Line]:
    """Render one block, without empty lines at its start and end."""
    lines: list[Line] = [[]]
    for segment in console.render(_Reply(text, hyperlinks=False), console.options):
        style = _style(segment.style) if in_colour else ""
        first, *others = visible(segment.text).split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    lines = [_trimmed(line) for line in lines]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _style(style: Style | None) -> str:
    if style is None or not style:
        return ""
    painted = Style(
        color=style.color, bold=style.bold, italic=style.italic, underline=style.underline, dim=style.dim
    ).render("x", color_system=ColorSystem.STANDARD)
    before = painted.partition("x")[0]
    return LOOK + before.removeprefix("\x1b[").removesuffix("m") if before else ""


def _trimmed(line: Line) -> Line:
    kept = [(style, text) for style, text in line if text]
    while kept and not kept[-1][1].rstrip():
        kept.pop()
    if kept:
        kept[-1] = (kept[-1][0], kept[-1][1].rstrip())
    return kept


class _Fence(CodeBlock):
    """Code without a frame at the margin, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Text.assemble(*((text, _CODE.get(style, "")) for style, text in coloured(code, self.lexer_name)))


class _Title(Heading):
    """A heading at the margin."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class _Reply(Markdown):
    elements = {**Markdown.elements, "fence": _Fence, "code_block": _Fence, "heading_open": _Title}  # noqa: RUF012 -- as rich declares it
