"""The tools: what clients learn about each one, and what a call does. `TOOLS` and `PYTHON_TOOLS` are the tables.

To add a tool, write its function and row in one of the modules here, and add the row to a table.
"""

from __future__ import annotations

from typing import Final

from .history import TICK, TIMELINE
from .python import REPLAY, REWIND, RUN
from .schema import ToolRow
from .views import GROUP, VIEW

TOOLS: Final[tuple[ToolRow, ...]] = (VIEW, GROUP, TICK, TIMELINE)
"""Tools that every client may call."""
PYTHON_TOOLS: Final[tuple[ToolRow, ...]] = (RUN, REWIND, REPLAY)
"""Tools that exist only if clients may run Python."""
