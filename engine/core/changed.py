"""What the changes of a file do, line by line: how much, where first, and what nobody would see in a diff of them.

Whoever decides about a change is shown it by an editor, which draws both texts as they are: two lines that differ in an
invisible character look alike, one that runs from right to left reads otherwise, and what stands far to the right is
not seen. `unseen_changes` says those lines in words. Pure. Called by whatever shows changes, and by the desk, which
records them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Final, NamedTuple

from msgspec.structs import replace

from .diff import Opcode, opcodes
from .execution import LeftOut, TextChange
from .legible import legible_line

FAR_COLUMNS: Final = 40
"""So much space within a line moves what follows out of sight."""
SHOWN_LINES: Final = 200
LINE_CHARS: Final = 400
"""Of a longer line a note has the places alone where something is not seen."""
SHOWN_PLACES: Final = 50
BESIDE_CHARS: Final = 40
"""On either side of such a place."""

_GAP: Final = re.compile(rf"(?<=\S)\s{{{FAR_COLUMNS},}}(?=\S)")
_SUSPECT: Final = re.compile(rf"(?<=\S)\s{{{FAR_COLUMNS},}}(?=\S)|[^ -~]")
"""What may not be seen: space that is a gap, and whatever is not ASCII."""


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
    """How many lines the changes add and remove, shown or not; a line that changes counts as both."""
    sizes = [_size_of(_codes(change)) for change in changes]
    left_out = [change.left_out for change in changes if change.left_out is not None]
    added = sum(size.added for size in (*sizes, *left_out))
    return Size(added, sum(size.removed for size in (*sizes, *left_out)))


def first_changed_line(changes: Sequence[TextChange]) -> int | None:
    """The first line that is otherwise afterwards, counted from 1; None where none is."""
    for change in changes:
        old, new = _split(change.old or ""), _split(change.new)
        equal = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if equal < max(len(old), len(new)):
            return change.line + equal
    return None


def unseen_changes(changes: Sequence[TextChange]) -> str:
    """The changed lines that a diff does not show as what they are, with escapes; empty where it shows all."""
    ends = [_ends(texts) for texts in ([each.old or "" for each in changes], [each.new for each in changes])]
    # Line ends that are the same throughout are the file's own, and no change hides in them.
    strip = "\r" if ends[1] == "\r\n" and ends[0] in ("\r\n", "") else ""
    lines = ((line, line.text.removesuffix(strip)) for line in _lines(changes, f"{strip}\n"))
    hidden = ((line, text) for line, text in lines if not _is_seen(text))
    said = [f"{line.sign} {line.number}: {_said(text)}" for line, text in islice(hidden, SHOWN_LINES)]
    if next(hidden, None) is not None:
        said.append("… and more lines")  # not counted, because a text of such lines may be long
    return "\n".join([*said, *filter(None, map(_newline_at_end, changes))])


def is_cut(changes: Sequence[TextChange]) -> bool:
    """Whether they are only the beginning of what changes."""
    return any(change.left_out is not None for change in changes)


def text_size(changes: Sequence[TextChange]) -> int:
    """How many characters the changes have, before and after."""
    return sum(len(change.old or "") + len(change.new) for change in changes)


def within(changes: Sequence[TextChange], note: str, limit: int) -> tuple[tuple[TextChange, ...], str]:
    """The beginning of the changes where they have more than `limit` characters, and the note with a sentence on that.

    A secret that is cut is not recognized any more, so the changes have to be without secrets by now.
    """
    total = text_size(changes)
    if total <= limit:
        return tuple(changes), note
    kept: list[TextChange] = []
    room = limit
    for change in changes:
        if text_size([change]) > room:
            break
        kept.append(change)
        room -= text_size([change])
    first, left = _beginning(changes[len(kept)], room)
    more = change_size(changes[len(kept) + 1 :])
    if text_size([first]) or not kept:
        kept.append(first)
    left_out = LeftOut(left.added + more.added, left.removed + more.removed)
    kept[-1] = replace(kept[-1], left_out=left_out)
    said = f"only the beginning is shown: {text_size(kept):,} of {total:,} characters"
    if left_out.added or left_out.removed:
        said += f", without {left_out.added:,} of the lines added and {left_out.removed:,} of those removed"
    return tuple(kept), "\n".join(filter(None, (note, said)))


def _beginning(change: TextChange, room: int) -> tuple[TextChange, Size]:
    """The first `room` characters of both texts together, in which no line looks added or removed that is not; and how
    many lines are behind them that are."""
    old, new = (io.StringIO(text or "", newline="\n").readlines() for text in (change.old, change.new))
    codes = _codes(change)
    added, removed = _size_of(codes)
    kept_old: list[str] = []
    kept_new: list[str] = []
    for in_old, in_new in _steps(codes):
        line_old = old[len(kept_old)] if in_old else ""
        line_new = new[len(kept_new)] if in_new else ""
        size = len(line_old) + len(line_new)
        if size > room and in_old and in_new:
            break
        kept_old += [line_old[:room]] * in_old
        kept_new += [line_new[:room]] * in_new
        removed, added = removed - (not in_new), added - (not in_old)
        room -= size
        if room <= 0:
            break
    texts = None if change.old is None else "".join(kept_old), "".join(kept_new)
    return replace(change, old=texts[0], new=texts[1]), Size(added, removed)


def _steps(codes: Sequence[Opcode]) -> Iterator[tuple[bool, bool]]:
    """Line by line in which of both texts it stands; where lines are replaced, one of each by turns."""
    for code in codes:
        removed, added = code.i2 - code.i1, code.j2 - code.j1
        if code.tag == "equal":
            yield from repeat((True, True), removed)
            continue
        for at in range(max(removed, added)):
            if at < removed:
                yield True, False
            if at < added:
                yield False, True


def _lines(changes: Sequence[TextChange], end: str) -> Iterator[_Line]:
    """The lines that differ, in the order of the file; those that are added have the numbers that they get.

    Changes in which all is seen are passed over, because they are the most, and may be long.
    """
    moved = 0
    for change in changes:
        texts = change.old or "", change.new
        if not all(_is_seen(text.replace(end, "\n")) for text in texts):
            old, new = map(_split, texts)
            for code in _codes(change):
                if code.tag != "equal":
                    yield from (_Line("-", change.line + at, old[at]) for at in range(code.i1, code.i2))
                    yield from (_Line("+", change.line + moved + at, new[at]) for at in range(code.j1, code.j2))
        moved += _count(change.new) - _count(change.old or "")


def _codes(change: TextChange) -> Sequence[Opcode]:
    if change.old and change.new:
        return opcodes(_split(change.old), _split(change.new))
    old, new = _count(change.old or ""), _count(change.new)
    return [Opcode("replace", 0, old, 0, new)] if old or new else []


def _size_of(codes: Sequence[Opcode]) -> Size:
    changed = [code for code in codes if code.tag != "equal"]
    return Size(sum(code.j2 - code.j1 for code in changed), sum(code.i2 - code.i1 for code in changed))


def _count(text: str) -> int:
    return text.count("\n") + (text[-1:] not in ("", "\n"))


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
    if (
        change.left_out is not None
        or not change.old
        or not change.new
        or change.old.endswith("\n") == change.new.endswith("\n")
    ):
        return ""
    return f"the last line {'gets a' if change.new.endswith(chr(10)) else 'loses its'} newline"


def _is_seen(text: str) -> bool:
    """Whether a diff shows all of a text of one line or several."""
    line = text.replace("\n", " ")
    return legible_line(line) == line and _GAP.search(text) is None


def _said(line: str) -> str:
    """The line with what is not seen of it, of a long one the first places where that is."""
    if len(line) <= LINE_CHARS:
        return _legible(line)
    said: list[str] = []
    shown = 0
    for found in _SUSPECT.finditer(line):
        start, end = found.span()
        if start < shown or (end - start == 1 and _is_seen(found[0])):
            continue
        if len(said) == SHOWN_PLACES:
            return " … ".join([*said, "and more"])
        first, shown = max(start - BESIDE_CHARS, shown), end + BESIDE_CHARS
        said.append(_legible(line[first:shown]))
    return " … ".join(said)


def _legible(text: str) -> str:
    return _GAP.sub(lambda gap: f" … {len(gap[0]):,} blank columns … ", legible_line(text))
