"""Merge two changed copies of a text, line by line: diff3, without markers of conflicts.

Both copies are compared with the text that they come from. A place that only one of them changed gets that change, and
one that both changed alike gets it once. Two different changes that overlap, or of which one ends where the other
begins, are a conflict, and there is no result. So each line of the result is as in one of the copies, next to lines
that this copy did not change.

Pure. `git merge-file` gives the same results, but is a process for each file, reads the user's configuration, and may
be missing. The lines are matched by `diff`, which is fast on any input. Called by `session.past.merging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .diff import Opcode, opcodes


class _Change(NamedTuple):
    """The copy replaces `base[i1:i2]` by `lines`."""

    i1: int
    i2: int
    lines: Sequence[str]


def merged(base: str, ours: str, theirs: str) -> str | None:
    """Return `ours` with the changes from `base` to `theirs`; None if they conflict.

    Ends of lines count as part of them, so that a text keeps its CRLF or its missing newline at the end.
    """
    lines = _lines(base)
    both = [_changes(lines, _lines(text)) for text in (ours, theirs)]
    result: list[str] = []
    at = 0
    for first, second in _together(*both):
        i1 = min(each.i1 for each in (*first, *second))
        i2 = max(each.i2 for each in (*first, *second))
        versions = [_version(lines, i1, i2, changes) for changes in (first, second) if changes]
        if any(each != versions[0] for each in versions):
            return None
        result += [*lines[at:i1], *versions[0]]
        at = i2
    return "".join([*result, *lines[at:]])


def _lines(text: str) -> Sequence[str]:
    """Return the lines with their ends; only a line feed ends one."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def _changes(base: Sequence[str], copy: Sequence[str]) -> Sequence[_Change]:
    changed: Iterator[Opcode] = (code for code in opcodes(base, copy) if code.tag != "equal")
    return [_Change(code.i1, code.i2, copy[code.j1 : code.j2]) for code in changed]


def _together(
    ours: Sequence[_Change], theirs: Sequence[_Change]
) -> Iterator[tuple[Sequence[_Change], Sequence[_Change]]]:
    """Yield the changes of both in groups that touch each other, in the order of the text."""
    i = j = 0
    while i < len(ours) or j < len(theirs):
        first, second = i, j
        end = min(each.i1 for each in (*ours[i : i + 1], *theirs[j : j + 1]))
        while True:
            if i < len(ours) and ours[i].i1 <= end:
                end = max(end, ours[i].i2)
                i += 1
            elif j < len(theirs) and theirs[j].i1 <= end:
                end = max(end, theirs[j].i2)
                j += 1
            else:
                break
        yield ours[first:i], theirs[second:j]


def _version(base: Sequence[str], i1: int, i2: int, changes: Sequence[_Change]) -> Sequence[str]:
    """Return what one copy has in place of `base[i1:i2]`."""
    found: list[str] = []
    for change in changes:
        found += [*base[i1 : change.i1], *change.lines]
        i1 = change.i2
    return [*found, *base[i1:i2]]
