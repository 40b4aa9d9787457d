"""One prompt's work as a state machine: values in, values out, nothing performed."""

from __future__ import annotations

from .effects import Abort, AskPermission, CallModel, Condense, Effect, RunStatement, RunTick, Stop
from .machine import State
from .outcomes import (
    Aborted,
    Answered,
    Begin,
    Cancel,
    Condensed,
    ContextFull,
    Dismissed,
    Failed,
    Outcome,
    Ran,
    Replied,
    Steered,
    Ticked,
    WantedStatement,
)
from .turn import Turn

__all__ = [
    "Abort",
    "Aborted",
    "Answered",
    "AskPermission",
    "Begin",
    "CallModel",
    "Cancel",
    "Condense",
    "Condensed",
    "ContextFull",
    "Dismissed",
    "Effect",
    "Failed",
    "Outcome",
    "Ran",
    "Replied",
    "RunStatement",
    "RunTick",
    "State",
    "Steered",
    "Stop",
    "Ticked",
    "Turn",
    "WantedStatement",
]
