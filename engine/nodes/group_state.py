"""The state of a group as plain data, which outlives the process of the handle.

Its members are not in it but beside it, as the nodes that they are, each with a state of its own. Called by GroupHandle
and by who keeps handles.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..ticks.result import Frequency


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group. `tokens` of None are All. The others are as the handle's attributes of that name."""

    type: Literal["group"] = "group"
    tokens: int | None
    lod: int
    running: bool
    freq: Frequency | None
    min_turn_interval: int
    last_tick_turn: int
    last_tick_time: float
    changed: bool
    dirty: bool
    last_touched: int = 0
    pinned: str | None = None


def group_state(plain: object) -> GroupState:
    """The state that is this plain data. Raises ValueError for anything else."""
    try:
        return msgspec.convert(plain, GroupState)
    except msgspec.ValidationError as error:
        raise ValueError(f"no state of a group: {error}") from None
