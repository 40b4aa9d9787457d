"""Assembles the tail block: the delta feed, then the handle table, within one exact budget.

At the smallest budgets there is the table alone. Otherwise a third of the budget is for the feed, and what the table
leaves. Every part starts with a visible character and ends with a newline, so that counts add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..ports import HandleRow, News
from . import deltas, handles

_FEED_SHARE: Final = 3
_FEED_FLOOR: Final = 96
"""Below this budget there is no room for a feed."""


def assemble(
    rows: Sequence[HandleRow],
    news: News,
    budget: int,
    count: Callable[[str], int],
) -> tuple[str, int]:
    """The tail's text and its exact tokens, never more than `budget`; empty where there is nothing to say."""
    names = {row.obj_id: row.name for row in rows}
    if budget < _FEED_FLOOR:
        return handles.table(rows, budget, count)
    feed, spent = deltas.feed(news, names, budget // _FEED_SHARE, count)
    table, used = handles.table(rows, budget - spent, count)
    if budget - used > spent:
        feed, spent = deltas.feed(news, names, budget - used, count)
    return feed + table, spent + used
