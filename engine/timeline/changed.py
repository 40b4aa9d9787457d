"""What the changes of a file do, line by line: how much, where first, and what nobody would see in a diff of them.

Whoever decides about a change is shown it by an editor, which draws both texts as they are: two lines that differ in an
invisible character look alike, one that runs from right to left reads otherwise, and what stands far to the right is
not seen. `unseen_changes` says those lines in words. Pure. Called by whatever shows changes, and by the desk, which
records them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..cutting import plural
from ..execution import TextChange
from ..legible import legible_line
from .diff import opcodes

FAR_COLUMNS: Final = 40
"""So much space within a line moves what follows out of sight."""
SHOWN_LINES: Final = 200
LINE_CHARS: Final = 400
"""Of a longer line a note has the places alone where something is not seen."""
BESIDE_CHARS: Final = 40
"""On either side of such a place."""

_GAP: Final = re.compile(rf"(?<=\S)\s{{{FAR_COLUMNS},}}(?=\S)")


class Size(NamedTuple):
    """How many lines are added and removed."""

    added: int
    removed: int


class _Line(NamedTuple):
    """One line that is removed (`-`) or added (`+`), as its text has it, and its number there."""

    sign: str
    number: int
    text: str


def change_size(changes: Sequence[TextChange]) -> Size:
    """How many lines the changes add and remove; a line that changes counts as both."""
    signs = [line.sign for line in _lines(changes)]
    return Size(signs.count("+"), signs.count("-"))


def first_changed_line(changes: Sequence[TextChange]) -> int | None:
    """The first line that is otherwise afterwards, counted from 1; None where none is."""
    for change in changes:
        for code in opcodes(_split(change.old or ""), _split(change.new)):
            if code.tag != "equal":
                return change.line + code.j1
    return None


def unseen_changes(changes: Sequence[TextChange]) -> str:
    """The changed lines that a diff does not show as what they are, with escapes; empty where it shows all."""
    ends = [_ends(texts) for texts in ([each.old or "" for each in changes], [each.new for each in changes])]
    # Line ends that are the same throughout are the file's own, and no change hides in them.
    strip = "\r" if ends[1] == "\r\n" and ends[0] in ("\r\n", "") else ""
    lines = [(line, _said(line.text.removesuffix(strip))) for line in _lines(changes)]
    hidden = [f"{line.sign} {line.number}: {said}" for line, said in lines if said is not None]
    hidden += filter(None, map(_newline_at_end, changes))
    more = len(hidden) - SHOWN_LINES
    if more > 0:
        hidden[SHOWN_LINES:] = [f"… {more:,} more {plural(more, 'line')}"]
    return "\n".join(hidden)


def within(changes: Sequence[TextChange], note: str, limit: int) -> tuple[tuple[TextChange, ...], str]:
    """The first changes that have `limit` characters together, and the note with a sentence on the others."""
    kept: list[TextChange] = []
    room = limit
    for change in changes:
        room -= len(change.old or "") + len(change.new)
        if room < 0:
            break
        kept.append(change)
    left = changes[len(kept) :]
    if not left:
        return tuple(changes), note
    size = change_size(left)
    count = f"{len(left):,} {'more ' if kept else ''}changed {plural(len(left), 'region')}"
    said = f"{count} not shown: {size.added:,} lines added, {size.removed:,} removed"
    return tuple(kept), "\n".join(filter(None, (note, said)))


def _lines(changes: Sequence[TextChange]) -> Iterator[_Line]:
    """The lines that differ, in the order of the file; those that are added have the numbers that they get."""
    moved = 0
    for change in changes:
        old, new = _split(change.old or ""), _split(change.new)
        for code in opcodes(old, new):
            if code.tag != "equal":
                yield from (_Line("-", change.line + at, old[at]) for at in range(code.i1, code.i2))
                yield from (_Line("+", change.line + moved + at, new[at]) for at in range(code.j1, code.j2))
        moved += len(new) - len(old)


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _ends(texts: Sequence[str]) -> str:
    """The one line end that the texts have; empty where they have none, and a space for several."""
    total = sum(text.count("\n") for text in texts)
    returns = sum(text.count("\r\n") for text in texts)
    alone = sum(text.count("\r") for text in texts) - returns
    if alone or 0 < returns < total:
        return " "
    return "" if not total else "\r\n" if returns else "\n"


def _newline_at_end(change: TextChange) -> str:
    """What is said of a text that gets or loses the newline at its end, which no diff of lines shows."""
    if not change.old or not change.new or change.old.endswith("\n") == change.new.endswith("\n"):
        return ""
    return f"the last line {'gets a' if change.new.endswith(chr(10)) else 'loses its'} newline"


def _said(line: str) -> str | None:
    """The line with what is not seen of it, of a long one the places where that is; None where all is seen."""
    gaps = [(gap.start(), gap.end()) for gap in _GAP.finditer(line)]
    if not gaps and legible_line(line) == line:
        return None
    if len(line) <= LINE_CHARS:
        return _legible(line)
    hidden = [(at, at + 1) for at, char in enumerate(line) if legible_line(char) != char]
    places: list[tuple[int, int]] = []
    for start, end in sorted(gaps + hidden):
        first, last = max(start - BESIDE_CHARS, 0), end + BESIDE_CHARS
        if places and first <= places[-1][1]:
            places[-1] = places[-1][0], max(last, places[-1][1])
        else:
            places.append((first, last))
    return " … ".join(_legible(line[first:last]) for first, last in places)


def _legible(text: str) -> str:
    return _GAP.sub(lambda gap: f" … {len(gap[0]):,} blank columns … ", legible_line(text))
