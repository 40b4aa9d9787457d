"""What a terminal says of statements that run again: one line for each, and one for each thing that differs.

Pure. Used by `transcript`.
"""

from __future__ import annotations

from ...context.tail.feed import divergence_phrase
from ...core.ids import StatementId
from ...log.events import AnyEvent
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.events.going_back import Diverged, ReplayBegun


class Reruns:
    """Which statement of how many it is; `remark` is told of every event that is nothing else to the screen."""

    def __init__(self) -> None:
        self._numbers: dict[StatementId, int] = {}
        self._done, self._of = 0, 0

    def number(self, event: StatementRecorded) -> None:
        """A statement that may run again."""
        self._numbers[event.statement_id] = event.index

    def remark(self, event: AnyEvent) -> str | None:
        """The line to be shown; None for none."""
        match event:
            case ReplayBegun(statements=count):
                self._done, self._of = 0, count
                return None
            case Diverged(statement=number):
                return f"statement {number} came out differently: {divergence_phrase(event)}"
            case ExecutionFinished(statement_id=statement, status=status):
                self._done += 1
                done = f"{self._done} of {max(self._done, self._of)}"
                return f"statement {self._numbers.get(statement, '?')} ran again ({done}): {status}"
            case _:
                return None
