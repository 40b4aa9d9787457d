"""BatchAtomicity: the actions of one model response stay together.

Closes the gaps strictly between the first and the last action of one `llm_response_id` (`POSITIONS`: also the gap
before the first). Leaves out all actions of a batch of which any action that is on the log is missing. An action
without a response id is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import ClassVar

from ....core.ids import LlmResponseId
from ....log.events import Event
from ....log.events.conversation import ToolCall
from ..rule import BoundaryRule
from .base import AllOrNothing, Closed, Closer, Enforcement, Recorder, Watch, WholeUnits


class BatchAtomicity:
    """Remembers of the log how many actions each batch has."""

    name: ClassVar[str] = "BatchAtomicity"

    def __init__(self, rule: BoundaryRule) -> None:
        self._rule = rule
        self._sizes: dict[LlmResponseId, int] = {}

    def recorders(self) -> Mapping[type[Event], Recorder]:
        return {ToolCall: self._record}

    def _record(self, call: ToolCall) -> None:
        if call.llm_response_id is not None:
            self._sizes[call.llm_response_id] = self._sizes.get(call.llm_response_id, 0) + 1

    def closers(self) -> Mapping[type[Event], Closer]:
        return {ToolCall: _Batches(0 if self._rule is BoundaryRule.POSITIONS else 1).closes}

    def enforcement(self, entries: Sequence[Event], open_run: bool) -> Enforcement:
        del open_run
        batches = [entry.llm_response_id if isinstance(entry, ToolCall) else None for entry in entries]
        return AllOrNothing(batches, self._sizes)

    def watch(self) -> Watch:
        return WholeUnits[LlmResponseId](attrgetter("llm_response_id"), self._sizes, [ToolCall])


class _Batches:
    """Where each batch began; `offset` is the distance from its first action to the first gap that it closes."""

    __slots__ = ("_first", "_offset")

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._first: dict[LlmResponseId, int] = {}

    def closes(self, position: int, call: ToolCall) -> Closed | None:
        response = call.llm_response_id
        first = position if response is None else self._first.setdefault(response, position)
        low = first + self._offset
        return (low, position) if low <= position else None
