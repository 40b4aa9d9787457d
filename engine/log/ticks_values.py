"""What is prepared for a tick, and what comes of one."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from ..core.ids import ObjId, PayloadId
from ..core.text import Exact
from .events import Event
from .events.nodes import PayloadBasis, PayloadCost, PayloadKind

STEP_CONTENT_BYTES: Final = 64 << 20
"""Contents of revisions that a worker sends of one statement or tick, at most; what is more is not kept."""


PAYLOAD_BYTES: Final = 256 << 10
"""A payload has at most so many bytes of data."""


class UpdatePayload(Struct, frozen=True, kw_only=True):
    """What was prepared for a node, beside statements and ticks, to be applied by a tick. As in AsyncPayloadPrepared.

    `data` is what `payload_kind` says: for a `render` the content of the file, for a `diff` nothing.
    """

    payload_id: PayloadId
    obj_id: ObjId
    prepared_at: float
    payload_kind: PayloadKind
    basis: PayloadBasis
    payload_hash: str
    data: bytes = b""
    cost: PayloadCost = field(default_factory=PayloadCost)


class Want(Struct, frozen=True, kw_only=True):
    """What a node could use at a tick to come, if somebody prepared it, as the node is after this tick.

    `work` names who can prepare it; `detail` is plain data for them. `path` and `title` are the document's, where there
    is one.
    """

    obj_id: ObjId
    work: Exact
    payload_kind: PayloadKind
    basis: PayloadBasis
    path: Exact = ""
    title: str = ""
    detail: dict[str, Exact | int] = field(default_factory=dict[str, Exact | int])


class TickOutcome(Struct, frozen=True, kw_only=True):
    """The events of one tick, unstamped, in the order of the phases; `contents` as in `RunOutcome`.

    `nodes` is how many were running. `stops` are sentences on what work from before a rebuild was kept from meanwhile.
    `wants` is all that could be prepared for ticks to come.
    """

    events: tuple[Event, ...] = ()
    time_ms: float = 0.0
    nodes: int = 0
    stops: tuple[str, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    wants: tuple[Want, ...] = ()
