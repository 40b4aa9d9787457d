"""The timeline as a read model: which statements there are, and which execution of each counts.

A fold over the log. Used by the loop (numbers, parents) and by every listing; `replay` has what a rebuild needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec import Struct

from ..events import Event
from ..events.execution import ExecutionFinished, ExecutionStarted, NamesRebound, StatementOmitted, StatementRecorded
from ..ids import ExecutionId, StatementId


class Cell(Struct):
    """A statement with its latest execution: started, perhaps finished. `omitted`: the user left it out."""

    statement: StatementRecorded
    started: ExecutionStarted | None = None
    finished: ExecutionFinished | None = None
    omitted: bool = False


class Timeline:
    """Statements in order. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (StatementRecorded, ExecutionStarted, ExecutionFinished, StatementOmitted, NamesRebound)
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._cells: dict[StatementId, Cell] = {}
        self._by_execution: dict[ExecutionId, Cell] = {}
        self._last_execution: ExecutionId | None = None
        self._names: set[str] = set()
        self._rebound: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case StatementRecorded():
                self._cells[event.statement_id] = Cell(event)
            case ExecutionStarted():
                cell = self._cells.get(event.statement_id)
                if cell is not None:
                    cell.started, cell.finished = event, None
                    self._by_execution[event.execution_id] = cell
                    self._last_execution = event.execution_id
            case ExecutionFinished():
                self._finish(event)
            case StatementOmitted(statement_id=statement_id, omitted=omitted):
                if statement_id in self._cells:
                    self._cells[statement_id].omitted = omitted
            case NamesRebound(names=names):
                self._rebound.update(names)
            case _:
                pass

    def _finish(self, event: ExecutionFinished) -> None:
        cell = self._by_execution.get(event.execution_id)
        if cell is not None:
            cell.finished = event
            if cell.statement.statement_kind == "python":
                self._names.update(event.diff.added, event.diff.changed)

    @property
    def cells(self) -> Sequence[Cell]:
        """Every statement of the branch, oldest first."""
        return tuple(self._cells.values())

    def cell(self, statement_id: StatementId) -> Cell | None:
        """The statement of that id, None where the log has none."""
        return self._cells.get(statement_id)

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
