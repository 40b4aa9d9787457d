"""Text of others as an editor can show it: nothing in it hides, overwrites or reorders what stands beside it.

Editors differ in what they show of a call: some its title alone, on one line, some its content as Markdown, some what
was asked for as it came. Whoever decides by one of these whether a statement may run must see every line of it there,
or be told how much is missing; the engine has the rules for a source (`engine.source_text`). A title is its first line
that says something, and counts what it leaves out. Its characters are those of the text: only one that would not be
seen is replaced, by its escape.

Pure. Must not know the protocol, which the codecs do. What is cut here must have been redacted before.
"""

from __future__ import annotations

import re
from typing import Final

from engine import as_printed, fenced, legible_line, source_lines

TITLE_CHARS: Final = 80
"""Of a title, before it counts what it leaves out."""

_PLAIN: Final = re.compile(r"""[\w (){}\[\]'"+=,.:;/%?@-]+""")
_MARKDOWN: Final = re.compile(r"^ |^[-+] |^\d+[.)] |_|\]\(|\]:| $")
"""What of these characters is a list, a link, emphasis, or lost."""


def title_line(text: str) -> str:
    """A text as a title: on one line, with an escape for what is not seen, and counting what it leaves out."""
    head, left_out = _head(text)
    return head + _counted(left_out)


def source_title(source: str) -> str:
    """The first line of a source that says something, and how much more there is: `import os … +2 lines`."""
    lines = source_lines(source)
    saying = [number for number, line in enumerate(lines) if line.strip()]
    if not saying:
        return "(empty)"
    head, left_out = _head(lines[saying[0]])
    return head + _counted(left_out, saying[-1] - saying[0])


def answer_text(text: str) -> str:
    """What a statement gave, as a message: fenced, but for one line that Markdown leaves as it is."""
    seen = as_printed(text)
    return seen if _PLAIN.fullmatch(seen) and not _MARKDOWN.search(seen) else fenced(seen)


def _head(text: str) -> tuple[str, int]:
    line = legible_line(text.strip()).replace("\t", " ")
    return line[:TITLE_CHARS].rstrip(), max(len(line) - TITLE_CHARS, 0)


def _counted(characters: int, lines: int = 0) -> str:
    counts = [
        f"+{count:,} {noun}{'s' * (count != 1)}"
        for count, noun in ((characters, "character"), (lines, "line"))
        if count
    ]
    return f" … {', '.join(counts)}" if counts else ""
