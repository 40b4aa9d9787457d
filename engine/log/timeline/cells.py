"""Statements and their executions, as positions on the log: a session has many, and holds them for good.

What they hold is read from the log when it is asked for. Must not know which execution counts. Filled by `index`, read
by whoever asks for a statement.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, overload

from ...core.ids import Seq
from ..event_list import Lookup, event_at
from ..events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..events.replays import Diverged

NONE: Final = -1
"""In a column, where there is no position or number."""


class Columns:
    """Statements and executions, numbered as they came, without what the log has of them: some 40 bytes for each."""

    def __init__(self, at: Lookup) -> None:
        self.at = at
        self.recorded = array("q")
        """Of a statement, as the five that follow: where the log has it."""
        self.index = array("q")
        self.is_python = bytearray()
        self.asked = bytearray()
        self.first = array("q")
        """The number of its first execution, NONE for none."""
        self.current = array("q")
        """That of the execution which counts."""
        self.others: dict[int, list[int]] = {}
        """Its executions after the first, where there are any."""
        self.omitted: set[int] = set()
        self.begun = array("q")
        """Of an execution, as the one that follows: where the log has its beginning."""
        self.ended = array("q")
        """Where the log has its record, NONE for nowhere."""
        self.divergences: dict[int, tuple[Diverged, ...]] = {}

    def __len__(self) -> int:
        return len(self.recorded)

    def record(self, place: int, event: StatementRecorded, *, asked: bool) -> None:
        """Takes a statement, a new one or in the place of one that had the same id."""
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
        """Takes an execution of the statement. Returns its number."""
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
    """One run of a statement, as it is by now: started, perhaps finished; and in what it came out otherwise than an
    earlier one. Equal to what began at the same place of the same log, whichever path was followed to it."""

    _columns: Columns
    _number: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Execution):
            return NotImplemented
        return self.begun == other.begun and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.begun)

    @property
    def begun(self) -> Seq:
        """Where the log has its beginning."""
        return Seq(self._columns.begun[self._number])

    @property
    def ended(self) -> Seq | None:
        """Where the log has its record, once it has ended."""
        ended = self._columns.ended[self._number]
        return None if ended == NONE else Seq(ended)

    @property
    def divergences(self) -> tuple[Diverged, ...]:
        """What came out otherwise."""
        return self._columns.divergences.get(self._number, ())

    @property
    def started(self) -> ExecutionStarted:
        """Its beginning."""
        return event_at(self._columns.at, self.begun, ExecutionStarted)

    @property
    def finished(self) -> ExecutionFinished | None:
        """Its record, where it has ended."""
        return None if (ended := self.ended) is None else event_at(self._columns.at, ended, ExecutionFinished)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A statement with all its executions, as they are by now. Equal as executions are."""

    _columns: Columns
    _place: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cell):
            return NotImplemented
        return self.recorded == other.recorded and self._columns.at == other._columns.at

    def __hash__(self) -> int:
        return hash(self.recorded)

    @property
    def recorded(self) -> Seq:
        """Where the log has the statement."""
        return Seq(self._columns.recorded[self._place])

    @property
    def index(self) -> int:
        """The number of the statement."""
        return self._columns.index[self._place]

    @property
    def is_python(self) -> bool:
        """It is the user's or a model's, not what the session runs by itself."""
        return bool(self._columns.is_python[self._place])

    @property
    def asked(self) -> bool:
        """It was a model's call, so that the conversation has its result."""
        return bool(self._columns.asked[self._place])

    @property
    def omitted(self) -> bool:
        """The user left it out."""
        return self._place in self._columns.omitted

    @property
    def executions(self) -> tuple[Execution, ...]:
        """The first of them first."""
        columns = self._columns
        first = columns.first[self._place]
        numbers = () if first == NONE else (first, *columns.others.get(self._place, ()))
        return tuple(Execution(columns, number) for number in numbers)

    @property
    def current(self) -> Execution | None:
        """The execution that the namespace goes by: the latest that is no recorded or dry replay's, nor one of a live
        replay that did not come to its end."""
        number = self._columns.current[self._place]
        return None if number == NONE else Execution(self._columns, number)

    @property
    def statement(self) -> StatementRecorded:
        """What is to run."""
        return event_at(self._columns.at, self.recorded, StatementRecorded)

    @property
    def started(self) -> ExecutionStarted | None:
        """The beginning of `current`."""
        return None if (current := self.current) is None else current.started

    @property
    def finished(self) -> ExecutionFinished | None:
        """The record of `current`, where that has ended."""
        return None if (current := self.current) is None else current.finished


class Cells(Sequence[Cell]):
    """The first statements of a timeline: which they are does not change."""

    def __init__(self, columns: Columns) -> None:
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
