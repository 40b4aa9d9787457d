"""The feed section: what is new to the model, and what it read before of handles that it still follows.

New items come in full where they fit, else by their first line, the newest first; those without room are counted. The
history is for what the model cannot look up any more: the newest changes, within a small budget of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ...core.cutting import DOTS
from ...files.tails import FeedItem, News
from .part import EMPTY, Count, Part

HEADING: Final = "Changed since your last statement:\n"
EARLIER: Final = "Changed before that, since you were shown them:\n"
EARLIER_ALONE: Final = "Changed since you were shown them:\n"
"""Where nothing is new."""
NAMESPACE: Final = "namespace"
"""What stands in the place of a name, for what is about no handle."""
HISTORY_TOKENS: Final = 400


def feed(news: News, names: Mapping[str, str], followed: Collection[str], budget: int, count: Count) -> Part:
    """What is new, and below it what was before, of handles whose ids are `followed`; within `budget` tokens."""
    new = _new(news, names, budget, count)
    wanted = _once([item for item in news.earlier if item.obj_id in followed])
    heading = EARLIER if new.text else EARLIER_ALONE
    before = _before(heading, wanted, names, min(HISTORY_TOKENS, budget - new.tokens), count)
    nodes = {key: new.nodes.get(key, 0) + before.nodes.get(key, 0) for key in (*new.nodes, *before.nodes)}
    return Part(new.text + before.text, new.tokens + before.tokens, nodes)


def _once(items: Sequence[FeedItem]) -> list[FeedItem]:
    """Without what a later one says in the same words: `1 of 2 members changed: g` every time is nothing new."""
    return list(dict.fromkeys(reversed(items)))[::-1]


def _new(news: News, names: Mapping[str, str], budget: int, count: Count) -> Part:
    items, dropped = news.items, news.left_out
    if not items and not dropped:
        return EMPTY
    entries = [_whole(item, names) for item in items]
    costs = [count(entry) for entry in entries]
    head = HEADING + _left_out(dropped)
    if count(head) + sum(costs) <= budget:
        return _part(head, items, entries, costs, count)
    note = len(items) + dropped
    room = budget - count(HEADING) - count(_left_out(note))
    kept = _newest(items, names, room, count)
    first = len(items) - len(kept)
    head = (HEADING if kept else "") + _left_out(dropped + first)
    part = _part(head, items[first:], kept, [count(entry) for entry in kept], count)
    return part if part.tokens <= budget else EMPTY


def _before(heading: str, items: Sequence[FeedItem], names: Mapping[str, str], budget: int, count: Count) -> Part:
    if not items:
        return EMPTY
    kept = _newest(items, names, budget - count(heading), count)
    if not kept:
        return EMPTY
    return _part(heading, items[len(items) - len(kept) :], kept, [count(entry) for entry in kept], count)


def _part(head: str, items: Sequence[FeedItem], entries: Sequence[str], costs: Sequence[int], count: Count) -> Part:
    nodes: dict[str, int] = {}
    for item, cost in zip(items, costs, strict=True):
        if item.obj_id:
            nodes[item.obj_id] = nodes.get(item.obj_id, 0) + cost
    return Part("".join((head, *entries)), count(head) + sum(costs), nodes)


def _newest(items: Sequence[FeedItem], names: Mapping[str, str], room: int, count: Count) -> list[str]:
    """The newest items that fit, in their order, each in full or else by its first line."""
    kept: list[str] = []
    for item in reversed(items):
        whole = _whole(item, names)
        first = whole.partition("\n")[0] + "\n"
        entry = next((entry for entry in (whole, first) if count(entry) <= room), None)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return kept[::-1]


def _whole(item: FeedItem, names: Mapping[str, str]) -> str:
    return f"{names.get(item.obj_id, item.obj_id or NAMESPACE)}: {item.text}\n"


def _left_out(changes: int) -> str:
    return f"{DOTS} {changes} {'change' if changes == 1 else 'changes'} not shown for want of room\n" if changes else ""
