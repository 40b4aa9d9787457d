"""The tools, a module each: what a client is told of it, and what a call does. `TOOLS` is the table.

A new tool is a module with a row, and its line here.
"""

from __future__ import annotations

from typing import Final

from . import group, replay, rewind, run, tick, timeline, view
from .row import ToolRow

TOOLS: Final[tuple[ToolRow, ...]] = (view.ROW, group.ROW, tick.ROW, timeline.ROW)
"""What every client may call."""
RUNNING: Final[tuple[ToolRow, ...]] = (run.ROW, rewind.ROW, replay.ROW)
"""What is there where clients may run Python."""
