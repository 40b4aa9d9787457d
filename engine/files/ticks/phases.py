"""The phases of a tick in their declared order. A phase goes from the tick's context to events.

Adding one is a file and a row in `PHASES`. Called by the Board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ...log.events import Event
from .asynchronous import asynchronous
from .context import TickContext
from .group import group
from .periodic import periodic
from .sync import sync

Phase = Callable[[TickContext], Iterator[Event]]

PHASES: Final[tuple[tuple[str, Phase], ...]] = (
    ("async", asynchronous),
    ("sync", sync),
    ("periodic", periodic),
    ("group", group),
)
"""What was prepared comes first, so that nothing is looked at for which it is there; groups last, over what came of it
all."""


def phases_of(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes once, as far as the events are taken; they come in the order in which things happen."""
    for _, phase in PHASES:
        yield from phase(context)
