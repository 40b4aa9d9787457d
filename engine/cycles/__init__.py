"""Request cycles: root request to run-stop, as a read model with two views. See `machine` for the rules."""

from __future__ import annotations

from .digest import digest
from .fold import CycleFold, cycles_of
from .model import Cycles, RequestCycle
from .plain import to_json, to_plain
from .rounds import rounds_of
from .steps import steps_of

__all__ = ["CycleFold", "Cycles", "RequestCycle", "cycles_of", "digest", "rounds_of", "steps_of", "to_json", "to_plain"]
