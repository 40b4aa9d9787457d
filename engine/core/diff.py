"""Line diffs that stay fast on large and on hostile inputs.

Patience: trim common ends, anchor on lines that are unique to both sides (longest increasing subsequence), go on inside
the gaps, and leave to difflib, which is quadratic, only gaps small enough for it. A larger gap without anchors is one
replacement. Called by tick deltas; knows nothing of files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

_SMALL: Final = 4096
"""Gaps of at most this many line pairs go to difflib: under 1 ms each."""


class Opcode(NamedTuple):
    """`b[j1:j2]` stands where `a[i1:i2]` stood; for `equal` they are the same lines."""

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
    """What is still to be matched: `a[a_lo:a_hi]` against `b[b_lo:b_hi]`."""

    a_lo: int
    a_hi: int
    b_lo: int
    b_hi: int


def opcodes(a: Sequence[str], b: Sequence[str]) -> list[Opcode]:
    """How `b` is made from `a`: consecutive stretches that cover both completely, never two equal ones in a row."""
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
    """The changes in groups as a unified diff shows them, each with up to `context` equal lines around it."""
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
    """The same matches with adjacent blocks made one."""
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
    """The common lines at both ends of the gap, and what is left between them."""
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
    """Pairs of matching indices, consecutive ones as one block."""
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
    """The longest subsequence in which the second members increase too."""
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
