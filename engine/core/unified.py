"""Hunks of a line diff as text: a header with the ranges, then lines that begin with a space, `-` or `+`.

Long lines are cut, and a pair of them to where it begins to differ, so that what changed is seen whatever the length.
Pure. Called by the deltas of ticks and by the level that shows differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .cutting import cut_line, cut_line_from
from .diff import Opcode

_LEAD: Final = 40
"""Characters shown of a cut line before the first that differs."""
_LOOKED_BACK: Final = 200
"""Lines above a hunk among which the one is looked for that it stands under."""
_LONGEST_HEADING: Final = 72
_NO_HEADING: Final = "})]*|+-"
_COMMENTS: Final = ("# ", "//", "/*", "--", "<!--", ";")


def hunk_lines(
    hunk: Sequence[Opcode], before: Sequence[str], after: Sequence[str], longest: int, heading: str = ""
) -> Iterator[str]:
    """The lines of one hunk, without newlines; of each of the document's at most `longest` characters.

    Args:
        heading: follows the ranges: what the hunk stands under.
    """
    first, last = hunk[0], hunk[-1]
    yield f"@@ -{_span(first.i1, last.i2)} +{_span(first.j1, last.j2)} @@ {heading}".rstrip()
    for code in hunk:
        if code.tag == "equal":
            yield from (" " + _cut(line, 0, longest) for line in before[code.i1 : code.i2])
            continue
        # By the line, because of a long hunk only the beginning may be wanted.
        for row in range(code.i2 - code.i1):
            yield "-" + _cut(before[code.i1 + row], _difference(before, after, code, row, longest), longest)
        for row in range(code.j2 - code.j1):
            yield "+" + _cut(after[code.j1 + row], _difference(before, after, code, row, longest), longest)


def heading_of(lines: Sequence[str], changed: int, first: int) -> str:
    """The line that line `changed` stands under by its indentation, a `def` or a `class`, ahead of line `first`.

    Both count from 0. Empty where there is none: what is from `first` on is shown anyway.
    """
    inner = next((_indent(line) for line in lines[changed : changed + _LOOKED_BACK] if line.strip()), 0)
    for index in range(min(changed, len(lines)) - 1, max(first - _LOOKED_BACK, 0) - 1, -1):
        text = lines[index].strip()
        if inner and text and _indent(lines[index]) < inner and _is_heading(text):
            if index < first:
                return cut_line(text, _LONGEST_HEADING)
            inner = _indent(lines[index])
    return ""


def _is_heading(text: str) -> bool:
    """Whether it says something of its own, which brackets and comments do not."""
    return text[0] not in _NO_HEADING and not text.startswith(_COMMENTS) and any(map(str.isalnum, text[:_LEAD]))


def _difference(before: Sequence[str], after: Sequence[str], code: Opcode, row: int, longest: int) -> int:
    """Where to begin with the lines number `row` of both sides: at 0 unless one of a pair is cut."""
    i, j = code.i1 + row, code.j1 + row
    if i >= code.i2 or j >= code.j2 or max(len(before[i]), len(after[j])) <= longest:
        return 0
    shared = _shared(before[i], after[j])
    return shared - _LEAD if shared > longest - _LEAD else 0


def _shared(one: str, other: str) -> int:
    """Characters that both begin with. By bisection, because comparing one at a time takes a second for 10 MB."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(line: str, start: int, longest: int) -> str:
    return cut_line_from(line.rstrip("\r"), start, longest)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _span(start: int, end: int) -> str:
    """A range as unified diffs write it: an empty one names the line before it."""
    size = end - start
    first = start + 1 if size else start
    return str(first) if size == 1 else f"{first},{size}"
