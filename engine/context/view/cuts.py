"""Where to cut a View that has become too long: policy over its indices and what its entries cost.

Owns the choice alone: the smallest prefix that brings the View under a target, less what must stay. Must not know what
a summary says nor who asked for it. Called by `sessions.condenser`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from ...log.events import Event
from ...log.events.conversation import ToolCall, UserMessage

SUMMARY_SHARE: Final = 4
SUMMARY_FLOOR: Final = 256
SUMMARY_TOKENS: Final = 2_000
"""A summary may cost this fraction of what it replaces, within these tokens. What costs less than its summary stays."""


class Cut(Struct, frozen=True):
    """What to forget: positions in the View, ascending, and the tokens they cost."""

    positions: tuple[int, ...]
    tokens: int

    @property
    def summary_tokens(self) -> int:
        """What a summary in its place may cost."""
        return _allowance(self.tokens)


def choose_cut(
    indices: Sequence[int], costs: Sequence[int], target: int, *, keep: int | None = None, end: int | None = None
) -> Cut | None:
    """The smallest prefix to forget so that at most `target` tokens are left, its summary included.

    Where no prefix does that, the one that leaves least.

    Args:
        indices: the View's manipulation indices, ascending.
        costs: tokens of each entry.
        target: tokens.
        keep: position of an entry that stays wherever it is, such as the request that is being worked on.
        end: the gap that the prefix must not pass; the end of the View where None.

    Returns:
        None where nothing can be forgotten, or too little to be worth a summary.
    """
    open_gaps = frozenset(indices)
    spent = (0, *accumulate(costs))
    can_skip = keep is not None and {keep, keep + 1} <= open_gaps
    best: tuple[int, int, int] | None = None
    for gap in indices:
        skips = keep is not None and keep < gap
        if (end is not None and gap > end) or (skips and not can_skip):
            break
        freed = spent[gap] - (costs[keep] if keep is not None and skips else 0)
        left = spent[-1] - freed + _allowance(freed)
        if freed > _allowance(freed) and (best is None or left < best[0]):
            best = (left, gap, freed)
        if best is not None and best[0] <= target:
            break
    if best is None:
        return None
    _, gap, freed = best
    return Cut(tuple(position for position in range(gap) if position != keep), freed)


def current_request(events: Sequence[Event]) -> int | None:
    """Position of the user's newest message that is not a steer; None where there is no such message."""
    positions = range(len(events) - 1, -1, -1)
    return next((position for position in positions if _is_request(events[position])), None)


def unread(events: Sequence[Event]) -> int:
    """In an open run, the gap before what no model call has read yet.

    It is before the newest reply with calls, because their results belong to it, or else before the request.
    """
    request = current_request(events)
    start = 0 if request is None else request
    calls = [event for event in events[start:] if isinstance(event, ToolCall)]
    if not calls:
        return start
    for position, event in enumerate(events[start:], start):
        if isinstance(event, ToolCall) and (event is calls[-1] or _is_sibling(event, calls[-1])):
            return position
    raise AssertionError("the newest call is among the events")


def _is_request(event: Event) -> bool:
    return isinstance(event, UserMessage) and event.prompt_kind != "steer"


def _is_sibling(call: ToolCall, other: ToolCall) -> bool:
    return call.llm_response_id is not None and call.llm_response_id == other.llm_response_id


def _allowance(forgotten_tokens: int) -> int:
    return min(SUMMARY_TOKENS, max(SUMMARY_FLOOR, forgotten_tokens // SUMMARY_SHARE))
