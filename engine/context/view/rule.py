"""The two rules for where a boundary is. One is chosen for each View; its properties ask for it."""

from __future__ import annotations

from enum import Enum


class BoundaryRule(Enum):
    """How properties close gaps.

    `GAPS` closes only what would split a unit: the gap before a batch or a loop and the gap after it stay open.
    `POSITIONS` is the published rule (`view.txt`): positions `min..max` of a batch or a loop are closed inclusively, so
    the gap before a unit is closed too; a loop ends only at an event that is neither call nor result; matching closes
    nothing; and enforcement removes no partial loop.
    """

    GAPS = "gaps"
    POSITIONS = "positions"
