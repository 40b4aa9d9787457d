"""The tick: the only moment, besides a running statement, at which nodes change.

`PHASES` declares the order. Phases know nodes by what they can do (`Ticking`), not by class, and return events; the
Board calls them once per Round, before its model call, and when a statement or a person asks for a tick.
"""

from __future__ import annotations

from .context import TickContext
from .phases import PHASES, phases_of
from .result import UNCHANGED, SourceChange, Ticking, TickResult

__all__ = ["PHASES", "UNCHANGED", "SourceChange", "TickContext", "TickResult", "Ticking", "phases_of"]
