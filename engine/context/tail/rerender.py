"""Which results to render anew, so that a prompt costs less and not more: a policy over costs alone.

A provider keeps the prompts that it was sent for a while, and reads what is the same from the first token on for about
a tenth of the price. So what changes a message near the beginning has all tokens behind it read at the full price: one
break in front of 50,000 cached tokens costs as much as 45,000 new ones. It pays where the prefix breaks at that place
anyway, and where a change saves more than a fifth of the tokens behind it.

Pure. Called by `sessions.rerendering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

SHARE: Final = 5
"""A change has to save one part in so many of the tokens behind it."""


class Rewrite(Struct, frozen=True):
    """A message that could become another: its place in the prompt, and what it would cost, in tokens."""

    place: int
    tokens: int


def choose_rewrites(
    rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int, room: int, *, at_any_price: bool = False
) -> tuple[Rewrite, ...]:
    """Those to carry out, by their places.

    What makes a message larger is carried out only as far as all of them fit `room`, the first in the prompt first.

    Args:
        rewrites: ascending by place, one for a place at most.
        costs: tokens of each message as it is.
        kept: how many messages from the first on the call before was sent, too; what follows is read anew anyway.
        room: tokens that the messages may take.
        at_any_price: all of them, whether it pays or not.
    """
    start = 0 if at_any_price else _break(rewrites, costs, kept)
    chosen: list[Rewrite] = []
    found = [rewrite for rewrite in rewrites if rewrite.place >= start]
    left = room - sum(costs) + sum(_saved(rewrite, costs) for rewrite in found if _saved(rewrite, costs) > 0)
    for rewrite in found:
        growth = -_saved(rewrite, costs)
        if growth <= 0:
            chosen.append(rewrite)
        elif growth <= left:
            left -= growth
            chosen.append(rewrite)
    return tuple(chosen)


def _break(rewrites: Sequence[Rewrite], costs: Sequence[int], kept: int) -> int:
    """The place from which on the prompt is to change: the one that saves most, at the latest where it does anyway."""
    best, start, saved = 0, kept, 0
    for rewrite in reversed([rewrite for rewrite in rewrites if rewrite.place < kept]):
        behind = sum(costs[rewrite.place + 1 : kept]) - saved
        saved += _saved(rewrite, costs)
        gain = SHARE * saved - behind
        if gain > best:
            best, start = gain, rewrite.place
    return start


def _saved(rewrite: Rewrite, costs: Sequence[int]) -> int:
    return costs[rewrite.place] - rewrite.tokens
