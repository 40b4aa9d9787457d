"""Measures a long sequence of pieces in tokens, counting only what it is asked about.

Counts are kept as cumulative sums per block, so that a window is found by walking blocks and one bisection, and a new
budget costs no new counting. Called by the renderers of nodes; pieces must be cut as `pieces.cut` cuts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Final

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
