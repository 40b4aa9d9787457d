"""Undo and redo: the files of one statement go back, and nothing else does.

The plan, its record and its end are those of a rewind (`rewinding`), so a kill or a cancel half-way is treated alike.
Must not know commands. Made by `session_runtime`.
"""

from __future__ import annotations

from typing import Final

import anyio.to_thread

from ...core.errors import InvalidRequestError
from ...core.ids import ExecutionId, Seq
from ...log.event_log import EventLog
from ...log.events.execution import ExecutionStarted, FileWritten, StatementRecorded
from ...log.events.going_back import RewindBegun
from ...log.file_history import Restorable
from ...log.timeline import Timeline
from ...log.undo_steps import Steps, files_again, files_of, steps_of
from ..live_environment import LiveEnvironment
from ..requests import ActiveRequest, MoveResult, UndoRequest, cell_numbered, no_such_statement
from .left_files import leaving
from .rewinding import FileRewinder

NOTHING_TO_UNDO: Final = "There are no file changes to undo."
NOTHING_TO_REDO: Final = "There are no undone changes to redo."
NOT_BY_STATEMENT: Final = "Statement {} has changed no file."
UNDONE: Final = "The changes of statement {} are undone already."
CHANGED_LATER: Final = "statement {} changed the file later; undo that statement first"


class Undoer:
    """Undoes and redoes what statements of one session did to files."""

    def __init__(self, log: EventLog, timeline: Timeline, environment: LiveEnvironment, files: FileRewinder) -> None:
        self._log = log
        self._timeline = timeline
        self._environment = environment
        self._files = files

    async def go(self, request: UndoRequest, active: ActiveRequest) -> MoveResult:
        """Undo or redo a step; a step of which no file can go back counts too.

        Raises:
            InvalidRequestError: there is no such step, and nothing has changed.
            SessionReadOnlyError: nothing can be recorded, and nothing has changed.
        """
        steps = steps_of(self._log.events)
        execution = self._meant(request, steps)
        found = files_again(self._log.events, execution) if request.is_redo else self._undone(execution, steps)
        found = self._files.ordered(found)
        if not request.protected:
            found = await anyio.to_thread.run_sync(self._files.without_protected, found)
        found = await self._files.merged(found, is_dry=request.is_dry)
        if request.is_dry:
            active.append_message()
            return MoveResult(found, None)
        begun = RewindBegun(
            statement=self._number(execution),
            since=Seq(len(self._log)),
            files=found.files,
            left=found.left,
            undone=execution,
            is_redo=request.is_redo,
        )
        if await anyio.to_thread.run_sync(self._files.has_protected, found):
            # What statements left running ends first, because it could open such a file in the moment of its change.
            async with self._environment.step, self._environment.ended():
                rewound = await self._files.rewind(begun, protected=request.protected)
        else:
            rewound = await self._files.rewind(begun, protected=request.protected)
        active.append_message()
        self._log.append(rewound)
        return MoveResult(found, rewound)

    def _meant(self, request: UndoRequest, steps: Steps) -> ExecutionId:
        if request.is_redo:
            if not steps.undone:
                raise InvalidRequestError(NOTHING_TO_REDO)
            return steps.undone[-1]
        if request.statement is None:
            if not steps.done:
                raise InvalidRequestError(NOTHING_TO_UNDO)
            return steps.done[-1]
        cell = cell_numbered(self._timeline.cells, str(request.statement))
        if cell is None:
            raise InvalidRequestError(no_such_statement(self._timeline.cells, str(request.statement)))
        statement = cell.statement.statement_id
        ran = {event.execution_id for event in self._started() if event.statement_id == statement}
        execution = next((each for each in reversed(steps.done) if each in ran), None)
        if execution is None:
            has_written = any(
                isinstance(event, FileWritten) and event.execution_id in ran for event in self._log.events
            )
            raise InvalidRequestError((UNDONE if has_written else NOT_BY_STATEMENT).format(request.statement))
        return execution

    def _undone(self, execution: ExecutionId, steps: Steps) -> Restorable:
        """Return what undoes an execution, without what a later one changed too."""
        found = files_of(self._log.events, execution)
        after = steps.done[steps.done.index(execution) + 1 :]
        later: dict[str, ExecutionId] = {}
        if after:
            for event in self._log.events:
                if isinstance(event, FileWritten) and event.execution_id in after:
                    later.setdefault(event.path, event.execution_id)
        numbers = {path: self._number(execution) for path, execution in later.items()}
        return leaving(found, lambda file: CHANGED_LATER.format(numbers[file.path]) if file.path in numbers else "")

    def _number(self, execution: ExecutionId) -> int:
        """Return the number of the statement of an execution."""
        statement = next(each.statement_id for each in self._started() if each.execution_id == execution)
        return next(
            event.index
            for event in self._log.events
            if isinstance(event, StatementRecorded) and event.statement_id == statement
        )

    def _started(self) -> list[ExecutionStarted]:
        return [event for event in self._log.events if isinstance(event, ExecutionStarted)]
