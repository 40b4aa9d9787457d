"""The timeline as a read model: which statements there are, with all executions of each, and which of those counts.

A fold over the log, which keeps positions: what they hold is read from the log when it is asked for. Used by the loop
(numbers, parents), by every listing, and by read models that follow after it; `replay` has what a rebuild needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from ...core.ids import ExecutionId, StatementId, ToolCallId
from ..event_list import Lookup
from ..events import Event
from ..events.conversation import ToolCall, ToolResult
from ..events.execution import ExecutionFinished, ExecutionStarted, NamesRebound, StatementOmitted, StatementRecorded
from ..events.replays import Diverged, ReplayBegun, ReplayEnded
from .cells import NONE, Cell, Cells, Columns


class Timeline:
    """Statements in order. `apply` is for the log alone, whose events `at` finds."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ToolCall,
            ToolResult,
            StatementRecorded,
            ExecutionStarted,
            ExecutionFinished,
            StatementOmitted,
            NamesRebound,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, at: Lookup) -> None:
        self.at = at
        """For read models that follow after it and keep positions, too."""
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._calls: set[ToolCallId] = set()
        """The model's, as long as they have no statement."""
        self._columns = Columns(self.at)
        self._places: dict[StatementId, int] = {}
        """Of statements in the columns."""
        self._under_way: dict[ExecutionId, tuple[int, int]] = {}
        """The executions that have no record yet, as the place of the statement and their own number."""
        self._last_execution: ExecutionId | None = None
        self._replay: ReplayBegun | None = None
        self._before: dict[int, int] = {}
        """What counted of the statements that a live replay has run again so far."""
        self._last_before: ExecutionId | None = None
        self._names: set[str] = set()
        self._rebound: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                self._calls.add(call)
            case ToolResult(tool_call_id=call):
                self._calls.discard(call)
            case StatementRecorded():
                self._record(event)
            case ExecutionStarted():
                self._start(event)
            case ExecutionFinished():
                self._finish(event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted):
                if (place := self._places.get(statement_id)) is not None:
                    (self._columns.omitted.add if omitted else self._columns.omitted.discard)(place)
            case NamesRebound(names=names):
                self._rebound.update(names)
            case _:
                self._apply_to_replay(event)

    def _apply_to_replay(self, event: Event) -> None:
        match event:
            case ReplayBegun():
                self._replay, self._last_before = event, self._last_execution
            case Diverged(execution_id=execution_id) if execution_id in self._under_way:
                _, number = self._under_way[execution_id]
                divergences = self._columns.divergences
                divergences[number] = (*divergences.get(number, ()), event)
            case ReplayEnded():
                self._end_replay(event)
            case _:
                pass

    def _record(self, event: StatementRecorded) -> None:
        place = self._places.get(event.statement_id)
        if place is None:
            place = self._places[event.statement_id] = len(self._columns)
        self._columns.record(place, event, asked=event.tool_call_id in self._calls)
        self._calls.discard(event.tool_call_id)

    def _start(self, event: ExecutionStarted) -> None:
        place = self._places.get(event.statement_id)
        if place is None:
            return
        number = self._columns.begin(place, event)
        self._under_way[event.execution_id] = place, number
        if event.counts:
            if self._replay is not None:
                self._before.setdefault(place, self._columns.current[place])
            self._columns.current[place] = number
            self._last_execution = event.execution_id

    def _finish(self, event: ExecutionFinished) -> None:
        place, number = self._under_way.pop(event.execution_id, (NONE, NONE))
        if place == NONE:
            return
        self._columns.ended[number] = event.seq
        if event.counts and self._columns.is_python[place]:
            self._names.update(event.diff.added, event.diff.changed)

    def _end_replay(self, event: ReplayEnded) -> None:
        if event.outcome != "completed":
            for place, number in self._before.items():
                self._columns.current[place] = number
            self._last_execution = self._last_before
        self._replay = None
        self._before.clear()

    @property
    def cells(self) -> Sequence[Cell]:
        """Every statement of the branch by now, oldest first. O(1)."""
        return Cells(self._columns)

    def cell(self, statement_id: StatementId) -> Cell | None:
        """The statement of that id, None where the log has none."""
        place = self._places.get(statement_id)
        return None if place is None else Cell(self._columns, place)

    @property
    def replay(self) -> ReplayBegun | None:
        """The replay that is under way."""
        return self._replay

    @property
    def next_index(self) -> int:
        """The number of the next statement, counted from 1."""
        return len(self._columns) + 1

    @property
    def names(self) -> Collection[str]:
        """Every name that a statement of the user's or a model's has bound so far."""
        return frozenset(self._names)

    @property
    def rebound(self) -> Collection[str]:
        """The injected names that a statement has ever bound to something else, given back since or not."""
        return frozenset(self._rebound)

    @property
    def last_statement(self) -> StatementId | None:
        return next(reversed(self._places), None)

    @property
    def last_execution(self) -> ExecutionId | None:
        return self._last_execution
