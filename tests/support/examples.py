"""How often a property is tried: a multiple of what the profile in force says, so that the profile decides for all."""

from __future__ import annotations

from hypothesis import settings


def examples(times: float) -> settings:
    """For a property that wants more examples than others, because one is cheap, or fewer, because one is dear.

    The profiles are in `tests/conftest.py`, which pytest loads before any module that asks.
    """
    return settings(max_examples=max(1, round(settings().max_examples * times)))
