"""Exact o200k_base token counts: cuts whose counts add up, a cached counter, and sums over long sequences.

**Cuts.** After a newline the o200k pattern always starts a new token, unless the following text could join the newline:
a slash, or white space that leads to another newline or to the end. So a text may be cut there, and the counts of the
pieces add up. Callers that build text from lines with a visible first character rely on it. A million fuzzed strings
and 3,421 files agreed with whole-text counts.

**Counter.** Each process has one encoding and a cache of counts. `load` builds the encoding when the caller chooses, as
the zygote does before it forks; counting builds it, too. Text that looks like a special token counts as ordinary text.

**Ruler.** It keeps cumulative sums per block of pieces and counts only the blocks it needs, so a window is found by
walking blocks and one bisection, and a new budget needs no new counts. Its pieces must be cut as `cut` cuts.
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
"""The most characters of one piece. tiktoken panics on runs of white space somewhere above 100,000."""

# Equals `\n(?![/]|\s*(?:[\r\n]|\Z))`, in linear time: `\s*` would rescan a run of blank lines from each of its lines.
_LINE: Final = re.compile(r"\n(?!/|[^\S\r\n]*+(?:[\r\n]|\Z))")
# A letter ends its pre-token before any ASCII character but a letter or the apostrophe of a contraction.
_WORD: Final = re.compile(r"[A-Za-z](?=[ !-&(-@\[-`{-~])")
_SEARCHED: Final = 4096
_SHORT: Final = 512
"""The longest text that is not cut, and the longest piece in the cache, in characters."""
_PIECES: Final = 16_384
"""Pieces in each of the two halves of their cache: about 6 MB together for lines of source code."""
_LONG: Final = 8_192
"""The longest text that is cached whole, so that repeated parts of a tail are not cut again."""
_TEXTS: Final = 256
"""Texts in each of the two halves of their cache: at most 4 MB together, of ASCII."""
BLOCK: Final = 64
"""How many pieces are counted together."""
_KEPT_BLOCKS: Final = 4096
"""How many blocks have their sums cached, about 10 MB; with one more the cache is cleared."""


@cache
def _counter() -> Counter:
    return Counter(ranks.encoding().encode_ordinary)


def load() -> None:
    """Build the encoding if this process has none yet: 150 to 300 ms."""
    _counter()


def counter() -> Callable[[str], int]:
    """Return the process's counter: always the same object, with one cache."""
    return _counter()


def count(text: str) -> int:
    """Count the tokens of `text` exactly.

    Lone surrogates count as U+FFFD, which an API would be sent. For the one inexact case see `cut`.
    """
    return _counter()(text)


def cut(text: str) -> Iterator[str]:
    """Yield the pieces of `text` in order.

    Their counts add up exactly, with one exception: a run of `LONGEST` characters without an exact place to cut (one
    letter, or white space, throughout) is cut anyway, which can add a token per cut.
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


class _Counts:
    """A cache of counts by text, which drops the less recently used half when it is full."""

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
    """Counts tokens, with a cache for short texts, pieces of long ones, and long ones up to a limit."""

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


class Ruler:
    """Token sums over pieces 0..length-1.

    Args:
        length: the number of pieces.
        piece: returns the text of piece i, always the same.
        count: returns the exact tokens of one piece, additive over pieces.
        block: pieces that are counted together; fewer if each is expensive.
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
            if len(self._blocks) >= _KEPT_BLOCKS:
                self._blocks = {}  # not one by one, because other threads may read it
            sums = self._blocks[block] = list(accumulate(map(self._count, pieces), initial=0))
        return sums

    def between(self, start: int, end: int) -> int:
        """Return the tokens of pieces start..end-1; 0 if there are none."""
        total = 0
        while start < end:
            block, offset = divmod(start, self._block)
            sums = self._sums(block)
            stop = min(end - block * self._block, len(sums) - 1)
            total += sums[stop] - sums[offset]
            start = block * self._block + stop
        return total

    def down(self, start: int, budget: int) -> int:
        """Return the greatest `end` such that pieces start..end-1 fit `budget`; `start` if none fits."""
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
        """Return the smallest `start` such that pieces start..end-1 fit `budget`; `end` if none fits."""
        while end > 0:
            first = (end - 1) // self._block * self._block
            sums = self._sums(first // self._block)
            need = sums[end - first]
            if need > budget:
                return first + min(end - first, bisect_left(sums, need - budget))
            budget -= need
            end = first
        return 0
