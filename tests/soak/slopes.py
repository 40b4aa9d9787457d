"""Whether a series grows with the work: a robust slope, its confidence, and what may grow.

The first fifth of a run is the warm-up, and does not count. The rest is cut into 30 blocks, and the median of each
block is one value: neighbouring samples depend on each other, and blocks hardly do. The slope is that of Theil and Sen,
the median of the slopes between all pairs of blocks, and its lower bound comes from the variance of Kendall's statistic
(Sen 1968). A series grows if the lower bound is above what is allowed. The bound is one-sided and fails once in a
thousand series without a trend, because a run judges about 40 of them. Must not know what is measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WARM_UP: Final = 0.2
"""The part of a run that does not count."""
BLOCKS: Final = 30
QUANTILE: Final = 3.0902
"""Of the normal distribution: one in a thousand is above it."""
_FEWEST_BLOCKS: Final = 8


@dataclass(frozen=True)
class Slope:
    """Growth per unit of work: the best estimate and a bound that the true one is hardly below."""

    estimate: float
    lower: float
    work: float
    """How much work was done in the part that counts."""
    median: float

    @property
    def grown(self) -> float:
        """How much the series has grown over the part that counts, at least."""
        return self.lower * self.work


def warm_up_end(work: Sequence[float], least: float = 0.0) -> float:
    """Return how much work is done when the warm-up ends: a fifth of it, and at least so much."""
    return work[0] + max(least, WARM_UP * (work[-1] - work[0]))


def blocks(work: Sequence[float], values: Sequence[float], least: float = 0.0) -> list[tuple[float, float]]:
    """Return the medians of the blocks after the warm-up, which takes at least so much work."""
    if not work:
        return []
    first = warm_up_end(work, least)
    counted = [(at, value) for at, value in zip(work, values, strict=True) if at >= first]
    number = min(BLOCKS, len(counted))
    cut = [counted[len(counted) * n // number : len(counted) * (n + 1) // number] for n in range(number)]
    return [(statistics.median(at for at, _ in each), statistics.median(value for _, value in each)) for each in cut]


def slope(work: Sequence[float], values: Sequence[float], least: float = 0.0) -> Slope:
    """Estimate the growth of the values per unit of work. Raises ValueError if there are too few samples."""
    points = blocks(work, values, least)
    pairs = sorted(
        (later - value) / (then - at)
        for index, (at, value) in enumerate(points)
        for then, later in points[index + 1 :]
        if then > at
    )
    if len(points) < _FEWEST_BLOCKS or not pairs:
        raise ValueError(f"{len(values)} samples are too few for a slope")
    number = len(points)
    spread = QUANTILE * math.sqrt(number * (number - 1) * (2 * number + 5) / 18)
    lower = pairs[max(0, int((len(pairs) - spread) / 2))]
    median = statistics.median(value for _, value in points)
    return Slope(statistics.median(pairs), lower, points[-1][0] - points[0][0], median)


@dataclass(frozen=True)
class Allowed:
    """What a series may grow by."""

    per_work: float = 0.0
    """For each unit of work, such as the memory that the log itself takes."""
    in_all: float = 0.0
    """Over the part that counts: less than this does not matter."""
    part: float = 0.0
    """The same as a part of the median."""


def grows(slope: Slope, allowed: Allowed) -> bool:
    """Return whether the series has certainly grown more than it may."""
    return slope.grown > allowed.per_work * slope.work + allowed.in_all + allowed.part * slope.median
