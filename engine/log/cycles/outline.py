"""The summary of an ended cycle, as adapters report it with the end of a run.

Pure over one `RequestCycle` and its two views. Called by the fold.
"""

from __future__ import annotations

from msgspec import Struct

from ..events.conversation import RunStopReason
from .model import RequestCycle, RootKind
from .rounds import rounds_of
from .steps import steps_of


class CycleSummary(Struct, frozen=True, kw_only=True):
    """`number` counts cycles from 1; `rounds` and `steps` are how many it had; `queued` prompts waited at its end."""

    number: int
    root: RootKind
    stop: RunStopReason
    rounds: int
    steps: int
    queued: int


def summary_of(cycle: RequestCycle, *, queued: int) -> CycleSummary:
    """The summary of a cycle that has ended."""
    assert cycle.stop is not None
    return CycleSummary(
        number=cycle.number,
        root=cycle.root_kind,
        stop=cycle.stop.reason,
        rounds=len(rounds_of(cycle).rounds),
        steps=len(steps_of(cycle)),
        queued=queued,
    )
