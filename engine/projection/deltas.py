"""The feed section of the tail: what is new to the model, and what it read before of handles that it still follows.

New items come in full where they fit, else by their first line, the newest first; those without room are counted. The
history is for what the model cannot look up any more, so it takes little: its newest changes, within a budget of its
own. Called by `tail`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from ..cutting import DOTS
from ..ports import FeedItem, News

HEADING: Final = "Changed since your last statement:\n"
EARLIER: Final = "Changed before that, since you were shown them:\n"
NAMESPACE: Final = "namespace"
"""What stands in the place of a name, for what is about no handle."""


def feed(news: News, names: Mapping[str, str], budget: int, count: Callable[[str], int]) -> tuple[str, int]:
    """What is new, within `budget` tokens, and its tokens. Empty where nothing fits."""
    items, dropped = news.items, news.left_out
    if not items and not dropped:
        return "", 0
    parts = [HEADING, _left_out(dropped), *(_whole(item, names) for item in items)]
    tokens = sum(map(count, parts))
    if tokens > budget:
        parts = _cut(items, dropped, names, budget, count)
        tokens = sum(map(count, parts))
    return ("".join(parts), tokens) if tokens <= budget else ("", 0)


def history(
    items: Sequence[FeedItem],
    names: Mapping[str, str],
    followed: Collection[str],
    budget: int,
    count: Callable[[str], int],
) -> tuple[str, int]:
    """The newest of the `items` that are about handles in `followed`, within `budget` tokens, and its tokens."""
    wanted = [item for item in items if item.obj_id in followed]
    room = budget - count(EARLIER)
    kept: list[str] = []
    for item in reversed(wanted):
        entry = _fitting(item, names, room, count)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return ("".join((EARLIER, *reversed(kept))), budget - room) if kept else ("", 0)


def _cut(
    items: Sequence[FeedItem], dropped: int, names: Mapping[str, str], budget: int, count: Callable[[str], int]
) -> list[str]:
    """The newest items that fit, each whole or by its first line, below a line that counts the others."""
    room = budget - count(HEADING) - count(_left_out(len(items) + dropped))
    kept: list[str] = []
    for item in reversed(items):
        entry = _fitting(item, names, room, count)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return [HEADING if kept else "", _left_out(len(items) + dropped - len(kept)), *reversed(kept)]


def _fitting(item: FeedItem, names: Mapping[str, str], room: int, count: Callable[[str], int]) -> str | None:
    """The item in full, or its first line; None where neither fits."""
    whole = _whole(item, names)
    first = whole.partition("\n")[0] + "\n"
    return next((entry for entry in (whole, first) if count(entry) <= room), None)


def _whole(item: FeedItem, names: Mapping[str, str]) -> str:
    return f"{names.get(item.obj_id, item.obj_id or NAMESPACE)}: {item.text}\n"


def _left_out(changes: int) -> str:
    return f"{DOTS} {changes} {'change' if changes == 1 else 'changes'} not shown for want of room\n" if changes else ""
