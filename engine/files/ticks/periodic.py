"""The periodic phase: running nodes with freq ("Periodic", seconds) look at their sources when that time has passed.

Due is what the clock of the tick says, counted from the last look. So intervals that were missed run once, and a clock
that was set back neither stops a node for as long as it was ahead nor has it look twice: a last look that lies in the
future counts as one that is due. Called by `phases`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...log.events import Event
from .context import TickContext
from .result import Ticking
from .told import ticked


def periodic(context: TickContext) -> Iterator[Event]:
    """Ticks the nodes that are due now."""
    return ticked((node for node in context.nodes if is_time(node, context.now)), context, "periodic")


def is_time(node: Ticking, now: float) -> bool:
    """Whether it runs, and its interval has passed since its last tick."""
    freq = node.freq
    if not node.running or not isinstance(freq, tuple):
        return False
    last = node.last_tick_time
    return not last <= now < last + freq[1]
