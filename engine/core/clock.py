"""Where time and randomness come from. Implemented by `core.system`; tests bring their own."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...


class Entropy(Protocol):
    """Where randomness comes from."""

    def bytes(self, count: int) -> bytes:
        """So many random bytes."""
        ...
