"""Text of others as an editor can show it: nothing in it hides, overwrites or reorders what stands beside it.

Editors differ in what they show of a call: some its title alone, on one line or up to a colon, some its content as
Markdown, some what was asked for as it came. Whoever decides by one of these whether a statement may run must see every
line of it there, or be told how much is missing. From this follow the rules for a source. A title is its first line
that says something, and counts what it leaves out; it has no colon, because some editors cut there. A content has all
lines, those that are too long for a screen are broken, and many blank ones are counted, because what is far
to the right or far below is not seen. What Python takes as the end of a line is one, and a character that would not be
seen, or would move others, is an escape.

Pure. Must not know the protocol, which the codecs do. What is cut here must have been redacted before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from engine import as_printed, cut_middle, fenced

TITLE_CHARS: Final = 80
"""Of a title, before it counts what it leaves out."""
LINE_CHARS: Final = 120
"""After so many characters a line of a source goes on in the next."""
TAB_COLUMNS: Final = 4
BLANK_LINES: Final = 3
"""More in a row are counted."""

_COLON: Final = "\N{RATIO}"
"""Stands for a colon in titles: it reads the same, and no editor cuts there."""
_CONTINUED: Final = "\N{RIGHTWARDS ARROW WITH HOOK} "
"""Begins what goes on from the line before; no line of Python can begin so."""
_PLAIN: Final = re.compile(r"""[\w (){}\[\]'"+=,.:;/%?@-]+""")
_MARKDOWN: Final = re.compile(r"^ |^[-+] |^\d+[.)] |_|\]\(|\]:| $")
"""What of these characters is a list, a link, emphasis, or lost."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""What counts as printable and is blank, variation selectors among it."""


def title_line(text: str) -> str:
    """A text as a title: on one line, with an escape for what is not seen, and counting what it leaves out."""
    head, left_out = _head(text)
    return head + _counted(left_out)


def source_title(source: str) -> str:
    """The first line of a source that says something, and how much more there is: `import os … +2 lines`."""
    lines = _LINE_END.split(source)
    saying = [number for number, line in enumerate(lines) if line.strip()]
    if not saying:
        return "(empty)"
    head, left_out = _head(lines[saying[0]])
    return head + _counted(left_out, saying[-1] - saying[0])


def source_text(source: str, limit: int) -> str:
    """All lines of a source, legible; of one with more than `limit` characters both ends, which say what is missing."""
    return "\n".join(_broken(cut_middle(source, limit)))


def source_command(source: str, limit: int) -> str:
    """A source for editors that show what was asked for as it came: its lines are whole."""
    return "\n".join(_lines(cut_middle(source, limit)))


def answer_text(text: str) -> str:
    """What a statement gave, as a message: fenced, but for one line that Markdown leaves as it is."""
    seen = as_printed(text)
    return seen if _PLAIN.fullmatch(seen) and not _MARKDOWN.search(seen) else fenced(seen)


def _head(text: str) -> tuple[str, int]:
    line = _legible(text.strip()).replace("\t", " ").replace(":", _COLON)
    return line[:TITLE_CHARS].rstrip(), max(len(line) - TITLE_CHARS, 0)


def _counted(characters: int, lines: int = 0) -> str:
    counts = [
        f"+{count:,} {noun}{'s' * (count != 1)}"
        for count, noun in ((characters, "character"), (lines, "line"))
        if count
    ]
    return f" … {', '.join(counts)}" if counts else ""


def _lines(source: str) -> Iterator[str]:
    return map(_legible, _LINE_END.split(source))


def _broken(source: str) -> Iterator[str]:
    for is_blank, group in groupby(_lines(source), lambda line: not line.strip()):
        lines = list(group)
        if is_blank and len(lines) > BLANK_LINES:
            yield f"… {len(lines):,} blank lines …"
            continue
        for line in (line.expandtabs(TAB_COLUMNS) for line in lines):
            yield line[:LINE_CHARS]
            for start in range(LINE_CHARS, len(line), LINE_CHARS):
                yield _CONTINUED + line[start : start + LINE_CHARS]


def _legible(line: str) -> str:
    """The line with an escape for every character but tab that would not be seen as what it is."""
    if line.replace("\t", " ").isprintable() and _UNSEEN.search(line) is None:
        return line
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in line)


def _is_seen(char: str) -> bool:
    return char == "\t" or (char.isprintable() and _UNSEEN.match(char) is None)
