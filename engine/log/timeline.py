"""The timeline: the statements of the active path, the executions of each, and which of those counts.

A session has many statements and keeps them for good, so the timeline keeps positions in columns, some 40 bytes a
statement. `Cell` and `Execution` read their events from the log when they are asked. Pure. Used by the agent loop
(numbers, parents), by every list of statements, and by read models that follow after it. `rebuild_plan` has what a
rebuild needs.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, overload

from ..core.ids import ExecutionId, Seq, StatementId, ToolCallId
from .event_log import Lookup, event_at
from .events import Event
from .events.conversation import ToolCall, ToolResult
from .events.execution import ExecutionFinished, ExecutionStarted, NamesRebound, StatementOmitted, StatementRecorded
from .events.going_back import Diverged, ReplayBegun, ReplayEnded
from .events.session import EnvironmentRestored

NONE: Final = -1
"""Stands in a column for no position or number."""


class _Columns:
    """Statements and executions as columns of positions and flags. Both are numbered in the order of the log."""

    def __init__(self, at: Lookup) -> None:
        self.at = at
        self.recorded = array("q")
        """The position of a statement. The next five columns are of statements, too."""
        self.index = array("q")
        self.is_python = bytearray()
        self.asked = bytearray()
        self.first = array("q")
        """The number of its first execution, or NONE."""
        self.current = array("q")
        """The number of the execution that counts, or NONE."""
        self.others: dict[int, list[int]] = {}
        """The numbers of its further executions."""
        self.omitted: set[int] = set()
        self.begun = array("q")
        """The position at which an execution begins."""
        self.ended = array("q")
        """The position of an execution's record, or NONE."""
        self.divergences: dict[int, tuple[Diverged, ...]] = {}

    def __len__(self) -> int:
        return len(self.recorded)

    def record(self, place: int, event: StatementRecorded, *, asked: bool) -> None:
        """Add a statement, or replace the one at `place`, which had the same id."""
        if place == len(self):
            for column in (self.recorded, self.index, self.first, self.current):
                column.append(NONE)
            for flags in (self.is_python, self.asked):
                flags.append(False)
        self.recorded[place], self.first[place], self.current[place] = event.seq, NONE, NONE
        self.index[place], self.is_python[place] = event.index, event.statement_kind == "python"
        self.asked[place] = asked
        self.others.pop(place, None)
        self.omitted.discard(place)

    def begin(self, place: int, event: ExecutionStarted) -> int:
        """Add an execution of the statement; return its number."""
        number = len(self.begun)
        self.begun.append(event.seq)
        self.ended.append(NONE)
        if self.first[place] == NONE:
            self.first[place] = number
        else:
            self.others.setdefault(place, []).append(number)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """One run of a statement as it is now. Two are equal if they began at the same position of the same log."""

    _columns: _Columns
    _number: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Execution):
            return NotImplemented
        return self.begun == other.begun and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.begun)

    @property
    def begun(self) -> Seq:
        """The position at which it begins."""
        return Seq(self._columns.begun[self._number])

    @property
    def ended(self) -> Seq | None:
        """The position of its record; None while it runs."""
        ended = self._columns.ended[self._number]
        return None if ended == NONE else Seq(ended)

    @property
    def divergences(self) -> tuple[Diverged, ...]:
        """Its differences from the earlier execution that it was compared with."""
        return self._columns.divergences.get(self._number, ())

    @property
    def started(self) -> ExecutionStarted:
        """The event with which it began."""
        return event_at(self._columns.at, self.begun, ExecutionStarted)

    @property
    def finished(self) -> ExecutionFinished | None:
        """Its record; None while it runs."""
        return None if (ended := self.ended) is None else event_at(self._columns.at, ended, ExecutionFinished)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A statement with all its executions as they are now. Two are equal if they are at the same position of a log."""

    _columns: _Columns
    _place: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cell):
            return NotImplemented
        return self.recorded == other.recorded and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.recorded)

    @property
    def recorded(self) -> Seq:
        """The position of the statement."""
        return Seq(self._columns.recorded[self._place])

    @property
    def index(self) -> int:
        """The number of the statement, counted from 1."""
        return self._columns.index[self._place]

    @property
    def is_python(self) -> bool:
        """Whether the user or a model wrote it, rather than the session."""
        return bool(self._columns.is_python[self._place])

    @property
    def asked(self) -> bool:
        """Whether a model called it, so that the conversation has its result."""
        return bool(self._columns.asked[self._place])

    @property
    def omitted(self) -> bool:
        """Whether the user left it out of the namespace."""
        return self._place in self._columns.omitted

    @property
    def executions(self) -> tuple[Execution, ...]:
        """All executions, the first one first."""
        columns = self._columns
        first = columns.first[self._place]
        numbers = () if first == NONE else (first, *columns.others.get(self._place, ()))
        return tuple(Execution(columns, number) for number in numbers)

    @property
    def current(self) -> Execution | None:
        """The execution that the namespace has: the latest, except those of recorded, dry and unfinished replays."""
        number = self._columns.current[self._place]
        return None if number == NONE else Execution(self._columns, number)

    @property
    def statement(self) -> StatementRecorded:
        """The event that records the statement."""
        return event_at(self._columns.at, self.recorded, StatementRecorded)

    @property
    def started(self) -> ExecutionStarted | None:
        """The event with which `current` began."""
        return None if (current := self.current) is None else current.started

    @property
    def finished(self) -> ExecutionFinished | None:
        """The record of `current`; None while it runs."""
        return None if (current := self.current) is None else current.finished


class _Cells(Sequence[Cell]):
    """The statements of a timeline so far. Later statements do not change it."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns
        self._length = len(columns)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Cell: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Cell]: ...

    def __getitem__(self, place: int | slice) -> Cell | Sequence[Cell]:
        found = range(self._length)[place]
        if isinstance(found, int):
            return Cell(self._columns, found)
        return tuple(Cell(self._columns, each) for each in found)


class Timeline:
    """The statements of the active path. `apply` is for the log alone, whose events `at` finds."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ToolCall,
            ToolResult,
            StatementRecorded,
            ExecutionStarted,
            ExecutionFinished,
            StatementOmitted,
            NamesRebound,
            EnvironmentRestored,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, at: Lookup) -> None:
        self.at = at
        """Finds events, for read models that follow the timeline and keep positions."""
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self._calls: set[ToolCallId] = set()
        """Model calls that have no statement yet."""
        self._columns = _Columns(self.at)
        self._places: dict[StatementId, int] = {}
        """The place of each statement in the columns."""
        self._running: dict[ExecutionId, tuple[int, int]] = {}
        """Executions without a record: the place of the statement, and their own number."""
        self._last_execution: ExecutionId | None = None
        self._replay: ReplayBegun | None = None
        self._before: dict[int, int] = {}
        """The execution that counted before the live replay, for each statement it has re-run."""
        self._last_before: ExecutionId | None = None
        self._names: set[str] = set()
        self._bound: dict[str, str] = {}
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
            case EnvironmentRestored(absent=absent):
                self._unbind(absent)
            case _:
                self._apply_to_replay(event)

    def _apply_to_replay(self, event: Event) -> None:
        match event:
            case ReplayBegun():
                self._replay, self._last_before = event, self._last_execution
            case Diverged(execution_id=execution_id) if execution_id in self._running:
                _, number = self._running[execution_id]
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
        self._running[event.execution_id] = place, number
        if event.counts:
            if self._replay is not None:
                self._before.setdefault(place, self._columns.current[place])
            self._columns.current[place] = number
            self._last_execution = event.execution_id

    def _finish(self, event: ExecutionFinished) -> None:
        place, number = self._running.pop(event.execution_id, (NONE, NONE))
        if place == NONE:
            return
        self._columns.ended[number] = event.seq
        if not event.counts:
            return
        diff = event.diff
        self._unbind(diff.deleted)
        self._bound |= {name: info.type_name for name, info in diff.added.items()}
        self._bound |= {name: change.after.type_name for name, change in diff.changed.items()}
        if self._columns.is_python[place]:
            self._names.update(diff.added, diff.changed)

    def _unbind(self, names: Iterable[str]) -> None:
        for name in names:
            self._bound.pop(name, None)

    def _end_replay(self, event: ReplayEnded) -> None:
        if event.outcome != "completed":
            for place, number in self._before.items():
                self._columns.current[place] = number
            self._last_execution = self._last_before
        self._replay = None
        self._before.clear()

    @property
    def cells(self) -> Sequence[Cell]:
        """Every statement of the branch so far, oldest first. O(1)."""
        return _Cells(self._columns)

    def cell(self, statement_id: StatementId) -> Cell | None:
        """Return the statement of that id, or None."""
        place = self._places.get(statement_id)
        return None if place is None else Cell(self._columns, place)

    @property
    def replay(self) -> ReplayBegun | None:
        """The replay that is running."""
        return self._replay

    @property
    def next_index(self) -> int:
        """The number of the next statement, counted from 1."""
        return len(self._columns) + 1

    @property
    def names(self) -> Collection[str]:
        """Every name that a statement of the user or a model has bound so far."""
        return frozenset(self._names)

    @property
    def bound(self) -> Mapping[str, str]:
        """The type name of each bound name, in the order of first binding, as the executions that count left them.

        Names of omitted statements, and those of a live replay that did not complete, are not taken back.
        """
        return self._bound

    @property
    def rebound(self) -> Collection[str]:
        """The injected names that a statement ever rebound, even if they were restored since."""
        return frozenset(self._rebound)

    @property
    def last_statement(self) -> StatementId | None:
        return next(reversed(self._places), None)

    @property
    def last_execution(self) -> ExecutionId | None:
        return self._last_execution
