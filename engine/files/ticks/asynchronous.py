"""The async phase: what was prepared beside statements and ticks is applied to its nodes, or dropped with the reason.

A payload holds of one state of its node, its basis; the node says whether that is still its own. For each one that is
applied: AsyncPayloadApplied, and where the node changed by it FileChanged (once per file), NodeChanged, TickApplied.
Called by `phases`, ahead of what looks at sources, so that nothing is read again that somebody has read already.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...log.events import Event
from ...log.events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, DropReason
from ...log.ticks_values import PAYLOAD_BYTES, UpdatePayload
from .context import TickContext
from .payloads import chosen
from .result import UNCHANGED, Ticking, TickResult
from .told import changed


def asynchronous(context: TickContext) -> Iterator[Event]:
    """Applies the payloads of this tick, in the order in which they were prepared."""
    if not context.payloads:
        return
    taken, superseded = chosen(context.payloads)
    for payload in superseded:
        yield _dropped(payload, "superseded", context)
    nodes = {node.obj_id: node for node in (*context.nodes, *context.groups)} if taken else {}
    for payload in taken:
        node = nodes.get(payload.obj_id)
        outcome = _taken(node, payload, context)
        if node is None or not isinstance(outcome, TickResult):
            yield _dropped(payload, "vanished" if isinstance(outcome, TickResult) else outcome, context)
            continue
        yield AsyncPayloadApplied(
            payload_id=payload.payload_id,
            obj_id=payload.obj_id,
            payload_kind=payload.payload_kind,
            turn_id=context.round_id,
            delta=outcome.summary,
        )
        if outcome is not UNCHANGED:
            yield from changed(node, outcome, context, "async")


def _taken(node: Ticking | None, payload: UpdatePayload, context: TickContext) -> TickResult | DropReason:
    if len(payload.data) > PAYLOAD_BYTES:
        return "too large"
    if node is None:
        return "vanished"
    return node.take_payload(payload, context.now, context.round_id)


def _dropped(payload: UpdatePayload, reason: DropReason, context: TickContext) -> AsyncPayloadDropped:
    return AsyncPayloadDropped(
        payload_id=payload.payload_id,
        obj_id=payload.obj_id,
        payload_kind=payload.payload_kind,
        reason=reason,
        turn_id=context.round_id,
    )
