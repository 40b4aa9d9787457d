"""What a phase of a tick is given: all nodes, the moment, and what was prepared for them.

A plain value. Made by the Board; a phase must change nothing but nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...log.ticks_values import UpdatePayload
from .result import Ticking


@dataclass(frozen=True, slots=True, kw_only=True)
class TickContext:
    """One tick.

    `nodes` and the `groups` of such are in the order of their creation; `round_id` is the Round, `now` in seconds since
    the epoch. `payloads` were prepared for it, oldest first. `asked`: a statement asked for it, so nodes look that did
    so in this Round already. `told` are the changes of files, by path and digest, of which an event of this tick says
    so.
    """

    nodes: Sequence[Ticking]
    groups: Sequence[Ticking] = ()
    round_id: int
    now: float
    payloads: Sequence[UpdatePayload] = ()
    asked: bool = False
    told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
