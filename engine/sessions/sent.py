"""What the log keeps of each model call: which texts it was made of, and what they cost.

Called by the agent loop when a call has ended.
"""

from __future__ import annotations

from ..events.session import ProjectionSent
from .projector import Projection


def sent(projection: Projection, round_id: int, *, answered: bool) -> ProjectionSent:
    """The event of a call that was made with `projection`."""
    return ProjectionSent(
        round_id=round_id,
        answered=answered,
        position=projection.position,
        size=projection.size,
        sections={
            "instructions": projection.instruction_tokens,
            "messages": projection.message_tokens,
            "tail": projection.tail_tokens,
        },
    )
