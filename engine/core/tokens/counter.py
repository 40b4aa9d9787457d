"""Where a text may be cut so that the token counts of its pieces add up to the count of the whole.

After a newline the o200k pattern always starts afresh, unless what follows could join the newline: a slash, or white
space that leads to another newline or to the end. Called by the counter, and relied on by whoever builds text from
lines that start with something visible. A million fuzzed strings and 3,421 files agreed with whole-text counts.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import Final

from . import ranks

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


# counter:
# Counts o200k_base tokens exactly: one encoding per process, built once, and a cache of what was counted.
#
# `load` builds the encoding at a moment that the caller chooses (the zygote's is before it forks); counting builds it
# too. Text that looks like a special token counts as the ordinary text it is.

_SHORT: Final = 512
"""Characters of the longest text that is not cut, and of the longest piece that is remembered."""
_PIECES: Final = 16_384
"""Pieces in each of the two halves of their cache: about 6 MB together for lines of source code."""
_LONG: Final = 8_192
"""Characters of the longest text that is remembered whole, so that what a tail repeats is not cut again."""
_TEXTS: Final = 256
"""Texts in each half of theirs: 4 MB together at most, of ASCII."""


class _Counts:
    """What was counted, by text; drops the less recently used half."""

    __slots__ = ("_count", "_most", "_new", "_old")

    def __init__(self, count: Callable[[str], int], most: int) -> None:
        self._count = count
        self._most = most
        self._new: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        known = self._new.get(text)
        if known is None:
            known = self._old.get(text)
            if known is None:
                known = self._count(text)
            if len(self._new) >= self._most:
                self._old, self._new = self._new, {}
            self._new[text] = known
        return known


class Counter:
    """A callable that counts; remembers short texts, pieces of long ones, and long ones that are not very long."""

    __slots__ = ("_encode", "_pieces", "_texts")

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._pieces = _Counts(self._encoded, _PIECES)
        self._texts = _Counts(self._summed, _TEXTS)

    def __call__(self, text: str) -> int:
        size = len(text)
        if size <= _SHORT:
            return self._pieces(text)
        return self._texts(text) if size <= _LONG else self._summed(text)

    def _summed(self, text: str) -> int:
        return sum(map(self._piece, cut(text)))

    def _piece(self, piece: str) -> int:
        return self._pieces(piece) if len(piece) <= _SHORT else self._encoded(piece)

    def _encoded(self, text: str) -> int:
        return len(self._encode(text))


@cache
def _counter() -> Counter:
    return Counter(ranks.encoding().encode_ordinary)


def load() -> None:
    """Builds the encoding if this process has none yet: 150 to 300 ms."""
    _counter()


def counter() -> Callable[[str], int]:
    """The process's counter; the same object at every call, so that its cache is shared."""
    return _counter()


def count(text: str) -> int:
    """Tokens of `text`, exactly.

    Lone surrogates count as U+FFFD, which is what an API would be sent. For the one inexact case see `pieces.cut`.
    """
    return _counter()(text)


# ruler:
# Measures a long sequence of pieces in tokens, counting only what it is asked about.
#
# Counts are kept as cumulative sums per block, so that a window is found by walking blocks and one bisection, and a
# new budget costs no new counting. Called by the renderers of nodes; pieces must be cut as `pieces.cut` cuts.

BLOCK: Final = 64
"""Pieces that are counted together."""
_HELD: Final = 4096
"""Blocks whose sums are kept, about 10 MB; with one more, all are counted again as they are asked about."""


class Ruler:
    """Token sums over pieces 0..length-1.

    Args:
        length: how many pieces there are.
        piece: the text of piece i; must always give the same.
        count: exact tokens of one piece; additive over pieces.
        block: pieces that are counted together; fewer where each of them is dear.
    """

    __slots__ = ("_block", "_blocks", "_count", "_length", "_piece")

    def __init__(
        self, length: int, piece: Callable[[int], str], count: Callable[[str], int], block: int = BLOCK
    ) -> None:
        self._length = length
        self._piece = piece
        self._count = count
        self._block = block
        self._blocks: dict[int, list[int]] = {}

    def _sums(self, block: int) -> list[int]:
        """Sums of the block's first 0, 1, 2 ... pieces."""
        sums = self._blocks.get(block)
        if sums is None:
            first = block * self._block
            pieces = map(self._piece, range(first, min(first + self._block, self._length)))
            if len(self._blocks) >= _HELD:
                self._blocks = {}  # and not one by one, because threads may ask, too
            sums = self._blocks[block] = list(accumulate(map(self._count, pieces), initial=0))
        return sums

    def between(self, start: int, end: int) -> int:
        """Tokens of pieces start..end-1; 0 where there are none."""
        total = 0
        while start < end:
            block, offset = divmod(start, self._block)
            sums = self._sums(block)
            stop = min(end - block * self._block, len(sums) - 1)
            total += sums[stop] - sums[offset]
            start = block * self._block + stop
        return total

    def down(self, start: int, budget: int) -> int:
        """The greatest `end` such that pieces start..end-1 fit `budget`; `start` where not even one does."""
        while start < self._length:
            block, offset = divmod(start, self._block)
            sums = self._sums(block)
            need = sums[-1] - sums[offset]
            if need > budget:
                return block * self._block + max(offset, bisect_right(sums, sums[offset] + budget) - 1)
            budget -= need
            start = block * self._block + len(sums) - 1
        return self._length

    def up(self, end: int, budget: int) -> int:
        """The smallest `start` such that pieces start..end-1 fit `budget`; `end` where not even one does."""
        while end > 0:
            first = (end - 1) // self._block * self._block
            sums = self._sums(first // self._block)
            need = sums[end - first]
            if need > budget:
                return first + min(end - first, bisect_left(sums, need - budget))
            budget -= need
            end = first
        return 0
