"""What is left of messages that cannot all be sent: long outputs keep their beginning and their end.

Used where no condensation can help. What the user said and what was run stay whole. Pure; counting is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.cutting import between
from ...log.events import Event
from ...log.events.conversation import AgentText, ToolResult
from ..view.entries import Summary

SHRINKABLE: Final = (ToolResult, AgentText, Summary)
_SMALLEST: Final = 32
_HEAD: Final = 2 / 3


def is_shrinkable(event: Event) -> bool:
    return isinstance(event, SHRINKABLE)


def fair_limit(costs: Sequence[int], room: int) -> int:
    """Tokens that each text may have so that all fit `room`: a power of two, at least 32.

    A power of two, because it then stays the same over many calls, and so does the beginning of the prompt.
    """
    limit = _SMALLEST
    while limit < max(costs, default=0) and sum(min(cost, 2 * limit) for cost in costs) <= room:
        limit *= 2
    return limit


def shortened(text: str, share: float) -> str:
    """About `share` (0..1) of the text, from its two ends, with a line between them that says what is missing."""
    kept = int(len(text) * share)
    head = int(kept * _HEAD)
    tail = kept - head
    return text[:head] + between(len(text) - kept, "because the context is full") + text[len(text) - tail :]
