"""The delta feed: what changed by itself since the last projection.

Filled at ticks, cleared when a model has read a tail. Bounded: of more changes than it holds, the oldest are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..cutting import DOTS

HEADING: Final = "Changed since your last statement:\n"
_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of one node; `text` is one line, or more with a diff, without a newline at its end."""

    obj_id: str
    text: str


class DeltaFeed:
    """Changes in the order in which they happened."""

    __slots__ = ("_deltas", "_dropped")

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque(maxlen=_KEPT)
        self._dropped = 0

    def add(self, delta: Delta) -> None:
        self._dropped += len(self._deltas) == _KEPT
        self._deltas.append(delta)

    @property
    def waiting(self) -> tuple[tuple[Delta, ...], int]:
        """What is kept, and how many older ones are not."""
        return tuple(self._deltas), self._dropped

    def clear(self) -> None:
        """Begins anew."""
        self._deltas.clear()
        self._dropped = 0


def feed(
    deltas: Sequence[Delta], dropped: int, names: Mapping[str, str], budget: int, count: Callable[[str], int]
) -> tuple[str, int]:
    """The feed's text within `budget` tokens, and its tokens: each change in full, else by its first line.

    Newest changes are kept where not all fit; the first line says how many are not shown. Empty where nothing fits.
    """
    if not deltas and not dropped:
        return "", 0
    parts = [HEADING, _left_out(dropped), *(_whole(delta, names) for delta in deltas)]
    tokens = sum(map(count, parts))
    if tokens > budget:
        parts = _cut(deltas, dropped, names, budget, count)
        tokens = sum(map(count, parts))
    return ("".join(parts), tokens) if tokens <= budget else ("", 0)


def _cut(
    deltas: Sequence[Delta], dropped: int, names: Mapping[str, str], budget: int, count: Callable[[str], int]
) -> list[str]:
    """The newest changes that fit, each whole or by its first line, below a line that counts the others."""
    room = budget - count(HEADING) - count(_left_out(len(deltas) + dropped))
    kept: list[str] = []
    for delta in reversed(deltas):
        whole = _whole(delta, names)
        first = whole.partition("\n")[0] + "\n"
        entry = next((entry for entry in (whole, first) if count(entry) <= room), None)
        if entry is None:
            break
        room -= count(entry)
        kept.append(entry)
    return [HEADING if kept else "", _left_out(len(deltas) + dropped - len(kept)), *reversed(kept)]


def _whole(delta: Delta, names: Mapping[str, str]) -> str:
    return f"{names.get(delta.obj_id, delta.obj_id)}: {delta.text}\n"


def _left_out(changes: int) -> str:
    return f"{DOTS} {changes} {'change' if changes == 1 else 'changes'} not shown for want of room\n" if changes else ""
