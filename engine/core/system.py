"""The operating system's clock and randomness behind `core.clock`. Tests bring their own."""

from __future__ import annotations

import os
import time


class SystemClock:
    """Wall time of this machine."""

    def now(self) -> float:
        return time.time()


class SystemEntropy:
    """Random bytes of the operating system."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)
