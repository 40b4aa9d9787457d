"""ObservationUniqueness: a tool call is answered once.

After a crash a call may have been answered twice, by the repair and by the tool itself; providers refuse such a
conversation for good. Closes no gap; leaves out every observation after the first for its `tool_call_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from ....core.ids import ToolCallId
from ....log.events import Event
from ....log.events.conversation import ToolResult
from ..rule import BoundaryRule
from .base import Closer, Enforcement, QuietUntil, Recorder, Watch


class ObservationUniqueness:
    """The same under both boundary rules."""

    name: ClassVar[str] = "ObservationUniqueness"

    def __init__(self, rule: BoundaryRule) -> None:
        del rule

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {}

    def closers(self) -> Mapping[type[Event], Closer]:
        return {}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        return _Duplicates(entries)

    def watch(self) -> Watch:
        answered: set[ToolCallId] = set()

        def is_again(result: ToolResult) -> bool:
            before = len(answered)
            answered.add(result.tool_call_id)
            return len(answered) == before

        return QuietUntil({ToolResult: is_again})


class _Duplicates:
    """A later observation does not become the first where that is removed, so nothing follows from a removal."""

    def __init__(self, entries: Sequence[Event]) -> None:
        self._entries = entries

    def offending(self) -> Iterable[int]:
        answered = [entry.tool_call_id for entry in self._entries if isinstance(entry, ToolResult)]
        seen: set[ToolCallId] = set()
        if len(set(answered)) == len(answered):
            return
        for position, entry in enumerate(self._entries):
            if isinstance(entry, ToolResult):
                if entry.tool_call_id in seen:
                    yield position
                seen.add(entry.tool_call_id)

    def after(self, position: int) -> Iterable[int]:
        del position
        return ()
