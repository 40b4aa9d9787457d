"""What a report says besides the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """The command of the run, and how its scenarios are repeated."""

    command: list[str]
    replays: Mapping[str, str] = field(default_factory=dict[str, str])
    """By scenario, the command that repeats it."""
