"""The phases of a tick in their declared order. A phase is a function from nodes and the moment to events.

Adding one is a file and a row in `PHASES`. Called by the Board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..events import Event
from .result import Ticking
from .sync import sync

Phase = Callable[[Sequence[Ticking], int, float], Iterator[Event]]
"""Nodes in the order of their creation, Round, seconds since the epoch."""

PHASES: Final[tuple[tuple[str, Phase], ...]] = (("sync", sync),)


def run(nodes: Sequence[Ticking], round_id: int, now: float) -> tuple[Event, ...]:
    """Ticks `nodes` once; the events stand in the order in which things happened."""
    return tuple(event for _, phase in PHASES for event in phase(nodes, round_id, now))
