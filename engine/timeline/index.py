"""The timeline as a read model: which statements there are, with all executions of each, and which of those counts.

A fold over the log, which keeps positions: what they hold is read from the log when it is asked for. Used by the loop
(numbers, parents), by every listing, and by read models that follow after it; `replay` has what a rebuild needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec import Struct

from ..event_list import Lookup, event_at
from ..events import Event
from ..events.conversation import ToolCall, ToolResult
from ..events.execution import ExecutionFinished, ExecutionStarted, NamesRebound, StatementOmitted, StatementRecorded
from ..events.replays import Diverged, ReplayBegun, ReplayEnded
from ..ids import ExecutionId, Seq, StatementId, ToolCallId


class Execution(Struct):
    """One run of a statement: started, perhaps finished; and in what it came out otherwise than an earlier one.

    `begun` and `ended` are where the log has that.
    """

    _at: Lookup
    begun: Seq
    ended: Seq | None = None
    divergences: tuple[Diverged, ...] = ()

    @property
    def started(self) -> ExecutionStarted:
        """Its beginning."""
        return event_at(self._at, self.begun, ExecutionStarted)

    @property
    def finished(self) -> ExecutionFinished | None:
        """Its record, where it has ended."""
        return None if self.ended is None else event_at(self._at, self.ended, ExecutionFinished)


class Cell(Struct):
    """A statement with all its executions, the first of them first. `omitted`: the user left it out.

    `current` is the execution that the namespace goes by: the latest that is no recorded or dry replay's, nor one of a
    live replay that did not come to its end. `recorded` is where the log has the statement. `asked`: it was a model's
    call, so that the conversation has its result.
    """

    _at: Lookup
    recorded: Seq
    asked: bool = False
    executions: tuple[Execution, ...] = ()
    current: Execution | None = None
    omitted: bool = False

    @property
    def statement(self) -> StatementRecorded:
        """What is to run."""
        return event_at(self._at, self.recorded, StatementRecorded)

    @property
    def started(self) -> ExecutionStarted | None:
        """The beginning of `current`."""
        return None if self.current is None else self.current.started

    @property
    def finished(self) -> ExecutionFinished | None:
        """The record of `current`, where that has ended."""
        return None if self.current is None else self.current.finished


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
        self._at = at
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._calls: set[ToolCallId] = set()
        """The model's, as long as they have no statement."""
        self._cells: dict[StatementId, Cell] = {}
        self._under_way: dict[ExecutionId, tuple[Cell, Execution]] = {}
        """The executions that have no record yet."""
        self._last_execution: ExecutionId | None = None
        self._replay: ReplayBegun | None = None
        self._before: dict[StatementId, Execution | None] = {}
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
            case StatementRecorded(tool_call_id=call):
                self._cells[event.statement_id] = Cell(self._at, event.seq, asked=call in self._calls)
                self._calls.discard(call)
            case ExecutionStarted():
                self._start(event)
            case ExecutionFinished():
                self._finish(event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted):
                if statement_id in self._cells:
                    self._cells[statement_id].omitted = omitted
            case NamesRebound(names=names):
                self._rebound.update(names)
            case _:
                self._apply_to_replay(event)

    def _apply_to_replay(self, event: Event) -> None:
        match event:
            case ReplayBegun():
                self._replay, self._last_before = event, self._last_execution
            case Diverged(execution_id=execution_id) if execution_id in self._under_way:
                _, execution = self._under_way[execution_id]
                execution.divergences = (*execution.divergences, event)
            case ReplayEnded():
                self._end_replay(event)
            case _:
                pass

    def _start(self, event: ExecutionStarted) -> None:
        cell = self._cells.get(event.statement_id)
        if cell is None:
            return
        execution = Execution(self._at, event.seq)
        cell.executions = (*cell.executions, execution)
        self._under_way[event.execution_id] = cell, execution
        if event.counts:
            if self._replay is not None:
                self._before.setdefault(event.statement_id, cell.current)
            cell.current = execution
            self._last_execution = event.execution_id

    def _finish(self, event: ExecutionFinished) -> None:
        cell, execution = self._under_way.pop(event.execution_id, (None, None))
        if cell is None or execution is None:
            return
        execution.ended = event.seq
        if event.counts and cell.statement.statement_kind == "python":
            self._names.update(event.diff.added, event.diff.changed)

    def _end_replay(self, event: ReplayEnded) -> None:
        if event.outcome != "completed":
            for statement_id, execution in self._before.items():
                self._cells[statement_id].current = execution
            self._last_execution = self._last_before
        self._replay = None
        self._before.clear()

    @property
    def cells(self) -> Sequence[Cell]:
        """Every statement of the branch, oldest first."""
        return tuple(self._cells.values())

    def cell(self, statement_id: StatementId) -> Cell | None:
        """The statement of that id, None where the log has none."""
        return self._cells.get(statement_id)

    @property
    def replay(self) -> ReplayBegun | None:
        """The replay that is under way."""
        return self._replay

    @property
    def next_index(self) -> int:
        """The number of the next statement, counted from 1."""
        return len(self._cells) + 1

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
        return next(reversed(self._cells), None)

    @property
    def last_execution(self) -> ExecutionId | None:
        return self._last_execution
