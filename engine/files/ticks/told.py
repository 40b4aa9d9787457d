"""The events of nodes that a phase has ticked: FileChanged (once per file), NodeChanged, TickApplied.

Used by the phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...log.events import Event
from ...log.events.nodes import FileChanged, NodeChanged, TickApplied, TickKind
from .context import TickContext
from .result import UNCHANGED, SourceChange, Ticking, TickResult


def ticked(nodes: Iterable[Ticking], context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Ticks these nodes, and says of each that changed how, in their order; of a file once in a tick."""
    for node in nodes:
        result = node.Tick(context.now, context.round_id, kind)
        if result is UNCHANGED:
            continue
        yield from changed(node, result, context, kind)


def changed(node: Ticking, result: TickResult, context: TickContext, kind: TickKind) -> Iterator[Event]:
    """Says how one node changed."""
    source = result.source
    if source is not None and (source.path, source.after_digest) not in context.told:
        context.told.add((source.path, source.after_digest))
        yield _file_changed(source, result.summary)
    yield NodeChanged(obj_id=node.obj_id, obj_type=node.obj_type, delta=result.delta)
    yield TickApplied(obj_id=node.obj_id, tick_kind=kind, turn_id=context.round_id, delta=result.summary)


def _file_changed(source: SourceChange, summary: str) -> FileChanged:
    return FileChanged(
        path=source.path,
        change=source.change,
        before_digest=source.before_digest,
        after_digest=source.after_digest,
        delta=summary,
    )
