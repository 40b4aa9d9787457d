"""How a budget is divided among the parts of a group. Pure arithmetic; knows neither text nor nodes.

Each part gets tokens in proportion to its weight, but no more than it can use; what one does not use, the others get.
So nothing is left over while anybody could use it. Called by `group_summary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Final

from .group_parts import Salience

_PINNED: Final = 8.0
_CHANGED: Final = 4.0
_TOUCHED: Final = 2.0
"""For the part that a statement used last; half of it for the one before, and so on."""
_SIZE_UNIT: Final = 64


def weights(saliences: Sequence[Salience], needs: Sequence[int]) -> list[float]:
    """What each part weighs, above 0. Of two that are alike in all else, the one that needs more weighs a little more.

    `touched` counts by rank: who was used last, who before that.
    """
    ranks = {number: rank for rank, number in enumerate(sorted({each.touched for each in saliences}, reverse=True))}
    return [
        (1 + _PINNED * each.pinned + _CHANGED * each.changed + _TOUCHED / (1 + ranks[each.touched]))
        * (1 + log2(1 + max(need, 0) / _SIZE_UNIT) / 8)
        for each, need in zip(saliences, needs, strict=True)
    ]


def divide(budget: int, needs: Sequence[int], weights: Sequence[float]) -> list[int]:
    """The share of each, 0 to its need, in whole tokens. They come to `budget`, or to all needs where that is less.

    Where whole tokens do not divide, the heavier part gets the odd one, and of equal ones the earlier.
    """
    shares = [0] * len(needs)
    open_parts: list[int] = [index for index, need in enumerate(needs) if need > 0]
    room = max(budget, 0)
    while open_parts and room > 0:
        total = sum(weights[index] for index in open_parts)
        filled: list[int] = [index for index in open_parts if needs[index] <= room * weights[index] / total]
        if not filled:
            _round(shares, open_parts, room, weights, needs)
            break
        for index in filled:
            shares[index] = needs[index]
        room -= sum(needs[index] for index in filled)
        open_parts = [index for index in open_parts if shares[index] == 0]
    return shares


def _round(shares: list[int], parts: Sequence[int], room: int, weights: Sequence[float], needs: Sequence[int]) -> None:
    """Proportional shares of `room` in whole tokens, for parts of which each needs more than that."""
    total = sum(weights[index] for index in parts)
    for index in parts:
        shares[index] = min(int(room * weights[index] / total), needs[index])
    left = room - sum(shares[index] for index in parts)
    for index in sorted(parts, key=lambda index: (-weights[index], index)):
        extra = min(left, 1, needs[index] - shares[index])
        shares[index] += extra
        left -= extra
