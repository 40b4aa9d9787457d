"""Which of the payloads that are ready a tick takes: of each node and kind the newest, and not too many.

Pure, and asked twice: by the host, which sends no more, and by the async phase, which takes no more. What is left over
waits for the next tick, in its order, so that no payload waits for ever. A payload for which there is a newer one is
given up together with the tick that takes the newer one, not before: so the same choice comes of what the tick ended
alone, which is what a re-run is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from ...core.ids import ObjId
from ...log.events.nodes import PayloadKind

MOST: Final = 32
"""Payloads that one tick applies."""


class Payload(Protocol):
    """As much of a payload as decides."""

    @property
    def obj_id(self) -> ObjId: ...

    @property
    def payload_kind(self) -> PayloadKind: ...


P = TypeVar("P", bound=Payload)


def chosen(waiting: Iterable[P]) -> tuple[Sequence[P], Sequence[P]]:
    """What a tick takes of the waiting, given oldest first, and what is superseded by that; both in their order."""
    newest: dict[tuple[ObjId, PayloadKind], P] = {}
    superseded: list[P] = []
    for payload in waiting:
        key = (payload.obj_id, payload.payload_kind)
        older = newest.get(key)
        if older is not None:
            superseded.append(older)
        elif len(newest) == MOST:
            continue
        newest[key] = payload
    return tuple(newest.values()), tuple(superseded)
