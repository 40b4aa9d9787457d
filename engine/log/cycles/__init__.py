"""Request cycles: root request to run-stop, as a read model with two views. See `machine` for the rules."""

from __future__ import annotations

from .fold import CycleFold, cycles_of
from .machine import Cycles, RequestCycle
from .views import CycleSummary, rounds_of, steps_of, summary_lines, to_json, to_plain

__all__ = [
    "CycleFold",
    "CycleSummary",
    "Cycles",
    "RequestCycle",
    "cycles_of",
    "rounds_of",
    "steps_of",
    "summary_lines",
    "to_json",
    "to_plain",
]
