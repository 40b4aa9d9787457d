"""Enforcement: the greatest set of entries in which every property holds, whatever the order of the properties.

Each property names the entries that violate it, and those that must follow when an entry is removed. One work list runs
until it is empty; every entry is removed at most once, so the cost is linear and nothing restarts or recurses. A
removal never makes another entry acceptable, so their order does not matter and the result is the one greatest set.
Must not know what the properties are about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress

from msgspec import Struct

from ...log.events import Event
from .properties import Property


class Correction(Struct, frozen=True):
    """A property had `count` entries left out, or a summary moved, because it did not hold."""

    property_name: str
    count: int


class Enforced(Struct, frozen=True):
    """What remains, in order, and the corrections of each property; none for a well-formed sequence."""

    events: tuple[Event, ...]
    corrections: tuple[Correction, ...]


def enforce(entries: Sequence[Event], properties: Sequence[Property], open_run: bool) -> Enforced:
    """The entries without those that keep any of `properties` from holding.

    An entry that offends several properties is counted for the first that named it. With `open_run`, calls that the
    present run still waits for count as answered.
    """
    enforcements = [each.enforcement(entries, open_run) for each in properties]
    stays = bytearray(b"\1") * len(entries)
    counts = [0] * len(properties)
    pending: deque[int] = deque()

    def take(positions: Iterable[int], reason: int) -> None:
        for position in positions:
            if stays[position]:
                stays[position] = 0
                counts[reason] += 1
                pending.append(position)

    for reason, enforcement in enumerate(enforcements):
        take(enforcement.offending(), reason)
    while pending:
        position = pending.popleft()
        for reason, enforcement in enumerate(enforcements):
            take(enforcement.after(position), reason)

    corrections = tuple(Correction(each.name, count) for each, count in zip(properties, counts, strict=True) if count)
    return Enforced(tuple(compress(entries, stays)), corrections)
