"""Where time and randomness come from. Implemented by `core.system`; tests bring their own."""

from __future__ import annotations

import os
import time
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


# system:
# The operating system's clock and randomness behind `core.clock`. Tests bring their own.


class SystemClock:
    """Wall time of this machine."""

    def now(self) -> float:
        return time.time()


class SystemEntropy:
    """Random bytes of the operating system."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
