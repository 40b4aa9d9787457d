"""The sync phase: running nodes with freq "Sync" look at their sources, at most once per `min_turn_interval` Rounds.

For every node that changed, in the order of creation: FileChanged (once per file), NodeChanged, TickApplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..events import Event
from ..events.nodes import FileChanged, NodeChanged, TickApplied
from .result import UNCHANGED, SourceChange, Ticking


def sync(nodes: Sequence[Ticking], round_id: int, now: float) -> Iterator[Event]:
    """Ticks the nodes that are due in this Round."""
    told: set[tuple[str, str]] = set()
    for node in nodes:
        if not node.due(round_id, "Sync"):
            continue
        result = node.Tick(now, round_id, "sync")
        if result is UNCHANGED:
            continue
        source = result.source
        if source is not None and (source.path, source.after_digest) not in told:
            told.add((source.path, source.after_digest))
            yield _file_changed(source, result.summary)
        yield NodeChanged(obj_id=node.obj_id, obj_type=node.obj_type, delta=result.delta)
        yield TickApplied(obj_id=node.obj_id, tick_kind="sync", turn_id=round_id, delta=result.summary)


def _file_changed(source: SourceChange, summary: str) -> FileChanged:
    return FileChanged(
        path=source.path,
        change=source.change,
        before_digest=source.before_digest,
        after_digest=source.after_digest,
        delta=summary,
    )
