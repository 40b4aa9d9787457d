"""Request cycles, from root request to run-stop: a read model with its rules (`machine`), fold and views."""

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
