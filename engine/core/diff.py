"""Line diffs: opcodes that stay fast on any input, unified hunks, and what a change does line by line.

**Opcodes** are made by a patience diff: trim common ends, anchor on lines that are unique on both sides (longest
increasing subsequence), continue inside the gaps, and leave only small gaps to difflib, which is quadratic. A larger
gap without anchors is one replacement.

**Hunks** are a header with the ranges and lines that begin with a space, `-` or `+`. Long lines are cut, and a pair of
them to where they begin to differ, so a change is visible whatever the length.

**Changes** are shown by an editor to the person who decides about them, and an editor draws both texts as they are. Two
lines that differ in an invisible character look alike, a line that runs from right to left reads differently, and text
far to the right is not seen. `unseen_changes` describes such lines in words.

Pure; knows nothing of files. Called by ticks, by the level of detail that shows differences, and by edits of files.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, repeat
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from .execution import LeftOut, TextChange
from .text import cut_line, cut_line_from, legible_line

_SMALL: Final = 4096
"""Gaps of at most this many line pairs go to difflib: under 1 ms each."""


class Opcode(NamedTuple):
    """`b[j1:j2]` replaces `a[i1:i2]`; for `equal` they are the same lines."""

    tag: Literal["equal", "replace", "delete", "insert"]
    i1: int
    i2: int
    j1: int
    j2: int


class _Block(NamedTuple):
    """`a[a_start:a_start+size] == b[b_start:b_start+size]`."""

    a_start: int
    b_start: int
    size: int


class _Gap(NamedTuple):
    """Lines still to match: `a[a_lo:a_hi]` against `b[b_lo:b_hi]`."""

    a_lo: int
    a_hi: int
    b_lo: int
    b_hi: int


def opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """Return how `b` is made from `a`: consecutive ranges that cover both, never two equal ones in a row."""
    codes: list[Opcode] = []
    i = j = 0
    for block in (*_joined(sorted(_blocks(a, b))), _Block(len(a), len(b), 0)):
        if i < block.a_start or j < block.b_start:
            tag = "insert" if i == block.a_start else "delete" if j == block.b_start else "replace"
            codes.append(Opcode(tag, i, block.a_start, j, block.b_start))
        i, j = block.a_start + block.size, block.b_start + block.size
        if block.size:
            codes.append(Opcode("equal", block.a_start, i, block.b_start, j))
    return codes


def hunks(codes: Sequence[Opcode], context: int) -> Iterator[list[Opcode]]:
    """Yield the changes in the groups of a unified diff, each with up to `context` equal lines around it."""
    hunk: list[Opcode] = []
    for index, code in enumerate(codes):
        if code.tag != "equal":
            hunk.append(code)
            continue
        head, tail = min(context, code.i2 - code.i1), min(context, code.i2 - code.i1)
        last = index == len(codes) - 1
        if hunk and not last and code.i2 - code.i1 <= 2 * context:
            hunk.append(code)
            continue
        if hunk:
            hunk.append(Opcode("equal", code.i1, code.i1 + head, code.j1, code.j1 + head))
            yield hunk
        hunk = [] if last else [Opcode("equal", code.i2 - tail, code.i2, code.j2 - tail, code.j2)]
    if any(code.tag != "equal" for code in hunk):
        yield hunk


def _joined(blocks: Iterable[_Block]) -> Iterator[_Block]:
    """Yield the matches with adjacent blocks joined."""
    held = _Block(0, 0, 0)
    for block in blocks:
        if (block.a_start, block.b_start) == (held.a_start + held.size, held.b_start + held.size):
            held = held._replace(size=held.size + block.size)
            continue
        if held.size:
            yield held
        held = block
    if held.size:
        yield held


def _blocks(a: Sequence[str], b: Sequence[str]) -> Iterator[_Block]:
    gaps = [_Gap(0, len(a), 0, len(b))]
    while gaps:
        head, gap, tail = _trim(a, b, gaps.pop())
        yield from (block for block in (head, tail) if block.size)
        if gap.a_lo == gap.a_hi or gap.b_lo == gap.b_hi:
            continue
        anchors = _anchors(a, b, gap)
        if anchors:
            yield from anchors
            gaps += _between(gap, anchors)
        elif (gap.a_hi - gap.a_lo) * (gap.b_hi - gap.b_lo) <= _SMALL:
            yield from _matched(a, b, gap)


def _trim(a: Sequence[str], b: Sequence[str], gap: _Gap) -> tuple[_Block, _Gap, _Block]:
    """Return the common lines at both ends of the gap, and the gap between them."""
    a_lo, a_hi, b_lo, b_hi = gap
    while a_lo < a_hi and b_lo < b_hi and a[a_lo] == b[b_lo]:
        a_lo, b_lo = a_lo + 1, b_lo + 1
    while a_lo < a_hi and b_lo < b_hi and a[a_hi - 1] == b[b_hi - 1]:
        a_hi, b_hi = a_hi - 1, b_hi - 1
    head = _Block(gap.a_lo, gap.b_lo, a_lo - gap.a_lo)
    return head, _Gap(a_lo, a_hi, b_lo, b_hi), _Block(a_hi, b_hi, gap.a_hi - a_hi)


def _unique(lines: Sequence[str], lo: int, hi: int) -> dict[str, int]:
    """Line to index, for lines that occur once in lines[lo:hi]; -1 for those that occur more often."""
    places: dict[str, int] = {}
    for index in range(lo, hi):
        line = lines[index]
        places[line] = -1 if line in places else index
    return places


def _anchors(a: Sequence[str], b: Sequence[str], gap: _Gap) -> list[_Block]:
    """The longest chain of lines unique on both sides that stand in the same order in both."""
    in_b = _unique(b, gap.b_lo, gap.b_hi)
    pairs = [(i, in_b.get(line, -1)) for line, i in _unique(a, gap.a_lo, gap.a_hi).items() if i >= 0]
    # Insertion order of a dict is that of first occurrences, so the pairs ascend in `a` already.
    return list(_runs(_longest_increasing([pair for pair in pairs if pair[1] >= 0])))


def _runs(pairs: Iterable[tuple[int, int]]) -> Iterator[_Block]:
    """Yield pairs of matching indices as blocks, consecutive ones as one."""
    start_a = start_b = -1
    size = 0
    for i, j in pairs:
        if i == start_a + size and j == start_b + size:
            size += 1
            continue
        if size:
            yield _Block(start_a, start_b, size)
        start_a, start_b, size = i, j, 1
    if size:
        yield _Block(start_a, start_b, size)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence in which the second members increase, too."""
    ends: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        place = bisect_left(ends, j) if ends and j <= ends[-1] else len(ends)
        before.append(holders[place - 1] if place else -1)
        ends[place : place + 1] = [j]
        holders[place : place + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = holders[-1] if holders else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _between(gap: _Gap, anchors: Sequence[_Block]) -> Iterator[_Gap]:
    a_lo, b_lo = gap.a_lo, gap.b_lo
    for anchor in (*anchors, _Block(gap.a_hi, gap.b_hi, 0)):
        if a_lo < anchor.a_start and b_lo < anchor.b_start:
            yield _Gap(a_lo, anchor.a_start, b_lo, anchor.b_start)
        a_lo, b_lo = anchor.a_start + anchor.size, anchor.b_start + anchor.size


def _matched(a: Sequence[str], b: Sequence[str], gap: _Gap) -> Iterator[_Block]:
    matcher = SequenceMatcher(None, a[gap.a_lo : gap.a_hi], b[gap.b_lo : gap.b_hi], autojunk=False)
    for i, j, size in matcher.get_matching_blocks():
        if size:
            yield _Block(gap.a_lo + i, gap.b_lo + j, size)


# --- unified hunks ----------------------------------------------------------------------------------------------------

_LEAD: Final = 40
"""How many characters of a cut line are shown before the first that differs."""
_LOOKED_BACK: Final = 200
"""How many lines above a hunk are searched for its heading."""
_LONGEST_HEADING: Final = 72
_NO_HEADING: Final = "})]*|+-"
_COMMENTS: Final = ("# ", "//", "/*", "--", "<!--", ";")


def hunk_lines(
    hunk: Sequence[Opcode], before: Sequence[str], after: Sequence[str], longest: int, heading: str = ""
) -> Iterator[str]:
    """Yield the lines of one hunk, without newlines, each line of the document cut to `longest` characters.

    Args:
        heading: follows the ranges: the line that the hunk belongs to.
    """
    first, last = hunk[0], hunk[-1]
    yield f"@@ -{_span(first.i1, last.i2)} +{_span(first.j1, last.j2)} @@ {heading}".rstrip()
    for code in hunk:
        if code.tag == "equal":
            yield from (" " + _cut(line, 0, longest) for line in before[code.i1 : code.i2])
            continue
        # Line by line, because the caller may want only the beginning of a long hunk.
        for row in range(code.i2 - code.i1):
            yield "-" + _cut(before[code.i1 + row], _difference(before, after, code, row, longest), longest)
        for row in range(code.j2 - code.j1):
            yield "+" + _cut(after[code.j1 + row], _difference(before, after, code, row, longest), longest)


def heading_of(lines: Sequence[str], changed: int, first: int) -> str:
    """Return the heading of a hunk: the `def` or `class` line, by indentation, that line `changed` belongs to.

    It is before line `first`, because the hunk shows the lines from there on. Both count from 0. Empty if there is
    none.
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
    """Return whether a line makes a heading, which brackets and comments do not."""
    return text[0] not in _NO_HEADING and not text.startswith(_COMMENTS) and any(map(str.isalnum, text[:_LEAD]))


def _difference(before: Sequence[str], after: Sequence[str], code: Opcode, row: int, longest: int) -> int:
    """Return where to begin with a pair of lines, number `row` of both sides: at 0 unless one of them is cut."""
    i, j = code.i1 + row, code.j1 + row
    if i >= code.i2 or j >= code.j2 or max(len(before[i]), len(after[j])) <= longest:
        return 0
    shared = _shared(before[i], after[j])
    return shared - _LEAD if shared > longest - _LEAD else 0


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix, by bisection: one character at a time takes a second for 10 MB."""
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
    """Return a range as unified diffs write it: an empty one names the line before it."""
    size = end - start
    first = start + 1 if size else start
    return str(first) if size == 1 else f"{first},{size}"


# --- the changes of a file, line by line ------------------------------------------------------------------------------

FAR_COLUMNS: Final = 40
"""The width of a gap within a line that moves the rest out of sight."""
SHOWN_LINES: Final = 200
LINE_CHARS: Final = 400
"""The length from which a note shows only the invisible places of a line."""
SHOWN_PLACES: Final = 50
BESIDE_CHARS: Final = 40
"""How many characters are shown on either side of such a place."""

_GAP: Final = re.compile(rf"(?<=\S)\s{{{FAR_COLUMNS},}}(?=\S)")
_SUSPECT: Final = re.compile(rf"(?<=\S)\s{{{FAR_COLUMNS},}}(?=\S)|[^ -~]")
"""Possibly invisible parts: wide gaps, and everything that is not ASCII."""


class Size(NamedTuple):
    """The numbers of added and removed lines."""

    added: int
    removed: int


class _Line(NamedTuple):
    """One removed (`-`) or added (`+`) line, with its number in its text."""

    sign: str
    number: int
    text: str


def change_size(changes: Sequence[TextChange]) -> Size:
    """Count the lines that the changes add and remove, shown or not; a changed line counts as both."""
    sizes = [_size_of(_codes(change)) for change in changes]
    left_out = [change.left_out for change in changes if change.left_out is not None]
    added = sum(size.added for size in (*sizes, *left_out))
    return Size(added, sum(size.removed for size in (*sizes, *left_out)))


def first_changed_line(changes: Sequence[TextChange]) -> int | None:
    """Return the first changed line, counted from 1, or None."""
    for change in changes:
        old, new = _split(change.old or ""), _split(change.new)
        equal = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if equal < max(len(old), len(new)):
            return change.line + equal
    return None


def unseen_changes(changes: Sequence[TextChange]) -> str:
    """Return, with escapes, the changed lines that a diff does not show faithfully; empty if there are none."""
    ends = [_ends(texts) for texts in ([each.old or "" for each in changes], [each.new for each in changes])]
    # Line ends that are the same throughout belong to the file, and hide no change.
    strip = "\r" if ends[1] == "\r\n" and ends[0] in ("\r\n", "") else ""
    lines = ((line, line.text.removesuffix(strip)) for line in _lines(changes, f"{strip}\n"))
    hidden = ((line, text) for line, text in lines if not _is_seen(text))
    said = [f"{line.sign} {line.number}: {_said(text)}" for line, text in islice(hidden, SHOWN_LINES)]
    if next(hidden, None) is not None:
        said.append("… and more lines")  # not counted, because there may be very many
    return "\n".join([*said, *filter(None, map(_newline_at_end, changes))])


def is_cut(changes: Sequence[TextChange]) -> bool:
    """Return whether they are only the beginning of a longer change."""
    return any(change.left_out is not None for change in changes)


def text_size(changes: Sequence[TextChange]) -> int:
    """Return how many characters the changes have, in old and new texts together."""
    return sum(len(change.old or "") + len(change.new) for change in changes)


def within(changes: Sequence[TextChange], note: str, limit: int) -> tuple[tuple[TextChange, ...], str]:
    """Cut the changes to `limit` characters; if that cuts something, add a sentence to the note.

    A cut secret would not be recognized any more, so the changes must be redacted before.
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
    said = f"this diff is cut to {text_size(kept):,} of {total:,} characters"
    if left_out.added or left_out.removed:
        said += f", and omits {left_out.added:,} added and {left_out.removed:,} removed lines"
    return tuple(kept), "\n".join(filter(None, (note, said)))


def _beginning(change: TextChange, room: int) -> tuple[TextChange, Size]:
    """Return the first `room` characters of both texts together, and the changed lines after them.

    No line in the beginning looks added or removed unless it is.
    """
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
    """Yield for each line whether it is in the old and in the new text; replaced lines alternate."""
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
    """Yield the changed lines in the order of the file; added lines have their new numbers.

    Changes without invisible parts are skipped, because most are, and they may be long.
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
    """Return the only line end of the texts; empty for none, a space for several."""
    total = sum(text.count("\n") for text in texts)
    returns = sum(text.count("\r\n") for text in texts)
    alone = sum(text.count("\r") for text in texts) - returns
    if alone or 0 < returns < total:
        return " "
    return "" if not total else "\r\n" if returns else "\n"


def _newline_at_end(change: TextChange) -> str:
    """Return a note on an added or removed final newline, which no diff of lines shows."""
    if (
        change.left_out is not None
        or not change.old
        or not change.new
        or change.old.endswith("\n") == change.new.endswith("\n")
    ):
        return ""
    return f"the last line {'gets a' if change.new.endswith(chr(10)) else 'loses its'} newline"


def _is_seen(text: str) -> bool:
    """Return whether a diff shows all of a text, of one line or several."""
    line = text.replace("\n", " ")
    return legible_line(line) == line and _GAP.search(text) is None


def _said(line: str) -> str:
    """Return the line with escapes; for a long one, only the first invisible places."""
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
