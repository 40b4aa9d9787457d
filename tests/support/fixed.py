"""A clock that stands still until it is told, and entropy that counts."""

from __future__ import annotations


class FixedClock:
    def __init__(self, now: float = 1_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time


class CountingEntropy:
    def __init__(self) -> None:
        self.count = 0

    def bytes(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count, "big")
