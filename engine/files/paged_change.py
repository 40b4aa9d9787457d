"""How a text that is read by pages became another, in words: where it begins to differ, or what was added at its end.

Which pages are equal is known without reading any. That nothing but the end is new, as in a log, takes the last page of
the old text, which the file still holds then. Used by the levels and by what ticks tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..core.cutting import plural
from .paged_lines import PagedLines, PageLostError
from .revision import Revision

_LONGEST: Final = 400
"""Characters of an added line that anybody is told."""


class Change(NamedTuple):
    """`said` is a clause, `added` are the lines that were added at the end, long ones in part; empty for others."""

    said: str
    added: Iterable[str] = ()


def size_of(revision: Revision) -> str:
    """How large a text is, in a few words."""
    lines = len(revision.lines)
    return f"{lines:,} {plural(lines, 'line')}, {revision.size:,} bytes"


def change_between(before: Revision, after: Revision) -> Change:
    """How a text became another, of which one at least is read by pages."""
    old, new = before.lines, after.lines
    sizes = f"{len(old):,} {plural(len(old), 'line')} became {len(new):,}"
    if not isinstance(old, PagedLines) or not isinstance(new, PagedLines):
        return Change(sizes)
    if _is_grown(old, new):
        begins, number = len(old) - (not old.pages.final_newline), len(new) - len(old)
        said = f"{number:,} {plural(number, 'line')} added at the end, from line {begins + 1:,} on"
        return Change(said, _lines(new, begins))
    first = old.pages.lines[old.pages.common(new.pages)] + 1
    return Change(f"{sizes}, the first change at or after line {first:,}")


def _is_grown(old: PagedLines, new: PagedLines) -> bool:
    last = old.pages.number - 1
    first = min(old.pages.common(new.pages), last)
    # The last page is another where more follows, and so is the one before it where a line was not ended.
    if new.pages.codec != old.pages.codec or first < last - 1 or len(new) < len(old):
        return False
    *whole, end = range(old.pages.lines[first], len(old))
    try:
        if any(old[line] != new[line] for line in whole):
            return False
        return new[end] == old[end] if old.pages.final_newline else new[end].startswith(old[end])
    except ValueError:
        return False  # because a page is lost, or the line too long to be compared


def _lines(new: PagedLines, begins: int) -> Iterator[str]:
    for line in range(begins, len(new)):
        try:
            yield new.part(line, 0, _LONGEST)
        except PageLostError:
            return
