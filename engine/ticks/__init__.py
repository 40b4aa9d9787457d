"""The tick: the only moment, besides a running statement, at which nodes change.

`PHASES` declares the order. Phases know nodes by what they can do (`Ticking`), not by class, and return events; the
Board calls them once per Round, after its statement.
"""

from __future__ import annotations

from .phases import PHASES, run
from .result import UNCHANGED, SourceChange, Ticking, TickResult

__all__ = ["PHASES", "UNCHANGED", "SourceChange", "TickResult", "Ticking", "run"]
