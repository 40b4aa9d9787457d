"""The properties of the View in their order, which decides only which of them is named as the reason of a removal."""

from __future__ import annotations

from .base import AllOrNothing, Closer, Enforcement, Property, QuietUntil, Recorder, Watch, Watcher, WholeUnits
from .batch_atomicity import BatchAtomicity
from .observation_uniqueness import ObservationUniqueness
from .tool_call_matching import ToolCallMatching
from .tool_loop_atomicity import ToolLoopAtomicity

PROPERTIES: tuple[type[Property], ...] = (
    ObservationUniqueness,
    BatchAtomicity,
    ToolCallMatching,
    ToolLoopAtomicity,
)

__all__ = [
    "PROPERTIES",
    "AllOrNothing",
    "Closer",
    "Enforcement",
    "Property",
    "QuietUntil",
    "Recorder",
    "Watch",
    "Watcher",
    "WholeUnits",
]
