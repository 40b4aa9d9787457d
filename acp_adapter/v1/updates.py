"""Updates as version 1 sends them: as they are, except for a status that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.requests import Activity
from acp_adapter.updates.shapes import Update
from acp_adapter.wire import to_wire


class Writer:
    """Writes the updates of one session."""

    def __init__(self, _redact: Any = None) -> None:
        """Updates contain no encoded text, so the connection's encoder redacts all of it."""

    def live(self, updates: Iterable[Update]) -> Iterator[Json]:
        """Write updates as they happen."""
        return map(_json, updates)

    def replayed(self, updates: Iterable[Update]) -> Iterator[Json]:
        """Write the updates of a load."""
        return map(_json, updates)

    def activity(self, _activity: Activity) -> Sequence[Json]:
        """Write whether the session is busy, which this version tells by the answers to prompts alone."""
        return ()


def _json(update: Update) -> Json:
    written = to_wire(update)
    if written.get("status") == "cancelled":
        written["status"] = "failed"
    return written
