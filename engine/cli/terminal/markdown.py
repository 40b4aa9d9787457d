"""The session's own answers, which are Markdown for editors, as a terminal shows them.

What the answers are made of, and no more: paragraphs, items of a list, code within a line, and fenced blocks. Prose is
wrapped between words; of a block of columns, a line that is too wide goes on below, where a column begins, so that a
narrow terminal shows a command whole. Text of files stays as it is. Pure. Called by `transcript`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from rich.cells import cell_len

from .fragments import Fragment
from .highlighting import Highlight, plain
from .wrapping import words_of

_FENCE: Final = re.compile(r"(`{3,})(\w*)\Z")
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)( ?)(.+?)\2\1(?!`)")
_ITEM: Final = re.compile(r"(?:- |\d+\. )")
_GAP: Final = re.compile(r" {2,}")
_WORDS: Final = re.compile(r"\s+|\S+")
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
    for space, word in words_of(_pieces(line, in_colour)):
        cells = sum(cell_len(text) for _, text in word)
        if width is not None and used > len(indent) and used + len(space) + cells > width:
            wrapped += [("", f"\n{indent}"), *word]
            used = len(indent) + cells
        else:
            wrapped += [("", space), *word]
            used += len(space) + cells
    return [*wrapped, ("", "\n")]


def _pieces(line: str, in_colour: bool) -> Iterator[Fragment]:
    """Words, the space between them, and code, which is one piece."""
    at = 0
    for code in _CODE.finditer(line):
        yield from (("", text) for text in _WORDS.findall(line[at : code.start()]))
        yield ("code", code[3]) if in_colour else ("", code[0])
        at = code.end()
    yield from (("", text) for text in _WORDS.findall(line[at:]))
