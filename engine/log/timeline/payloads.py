"""What was prepared and has not come to an end, as a fold over a path: the queue of payloads that ticks take from.

Since it is the log that says what is ready, a session that is loaded again goes on with it. Must not know how anything
is prepared, nor hold data: that is in the store. Followed by the log; read by the preparer, and by `replay`, which
needs of each tick what it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...core.ids import PayloadId
from ..events import Event
from ..events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, AsyncPayloadPrepared
from ..ticks_values import UpdatePayload


class Payloads:
    """The payloads that wait. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (AsyncPayloadPrepared, AsyncPayloadApplied, AsyncPayloadDropped)
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._waiting: dict[PayloadId, AsyncPayloadPrepared] = {}

    def apply(self, event: Event) -> None:
        match event:
            case AsyncPayloadPrepared():
                self._waiting[event.payload_id] = event
            case AsyncPayloadApplied() | AsyncPayloadDropped():
                self._waiting.pop(event.payload_id, None)
            case _:
                pass

    def get(self, payload_id: PayloadId) -> AsyncPayloadPrepared | None:
        """The payload of that id, if it waits."""
        return self._waiting.get(payload_id)

    @property
    def waiting(self) -> Sequence[AsyncPayloadPrepared]:
        """In the order in which they were prepared."""
        return tuple(self._waiting.values())


class PreparedTokens:
    """Those that models have taken for all that was ever prepared, on whatever branch. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((AsyncPayloadPrepared,))

    def __init__(self) -> None:
        self.taken = 0

    def apply(self, event: Event) -> None:
        if isinstance(event, AsyncPayloadPrepared):
            self.taken += event.cost.tokens


def payload_of(event: AsyncPayloadPrepared, data: bytes = b"") -> UpdatePayload:
    """The payload that the event tells of, with its data."""
    return UpdatePayload(
        payload_id=event.payload_id,
        obj_id=event.obj_id,
        prepared_at=event.prepared_at,
        payload_kind=event.payload_kind,
        basis=event.basis,
        payload_hash=event.payload_hash,
        data=data,
        cost=event.cost,
    )
