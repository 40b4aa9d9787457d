"""Request cycles: root request to run-stop, as a read model with two views. See `machine` for the rules."""

from __future__ import annotations

from .fold import CycleFold, cycles_of
from .model import Cycles, RequestCycle
from .outline import CycleSummary
from .plain import to_json, to_plain
from .rounds import rounds_of
from .steps import steps_of
from .summary import summary_lines

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
