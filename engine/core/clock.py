"""The sources of time and randomness, which are passed in everywhere; tests use fixed ones."""

from __future__ import annotations

import os
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Return the seconds since the Unix epoch."""
        ...


class Entropy(Protocol):
    """A source of randomness."""

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        ...


class SystemClock:
    """The wall clock of this machine."""

    def now(self) -> float:
        return time.time()


class SystemEntropy:
    """The random bytes of the operating system."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
