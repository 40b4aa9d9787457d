"""Progress of replays, edits and rewinds, as `3 of 8`.

`RerunProgress` is a pure fold over what a session publishes; the terminal uses it too. The command line and adapters
call `with_progress` around `Session.replay`, `edit` and `rewind`. Must not know how progress is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from msgspec import Struct

from ..core.errors import EngineError
from ..core.ids import StatementId
from ..core.text import plural
from ..log.events.conversation import RunStop
from ..log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ..log.events.going_back import EditBegun, ReplayBegun, ReplayEnded
from .journal import FilesPutBack, Item, StatementRerun, Subscription
from .session import Session

T = TypeVar("T")


class Progress(Struct, frozen=True):
    """`done` of `total` are over. `text` names the current statement, or what was done, in a few words.

    `total` is 0 while earlier statements run again, which do not count.
    """

    done: int
    total: int
    text: str


class RerunProgress:
    """The fold over replays, edits and rewinds, one after the other. `done` never decreases.

    `number_of` returns the number of a statement that was recorded earlier, or None.
    """

    def __init__(self, number_of: Callable[[StatementId], int | None]) -> None:
        self._number_of = number_of
        self._numbers: dict[StatementId, int] = {}
        self._begun = self._done = self._total = 0

    def apply(self, item: Item) -> Progress | None:
        """Return the progress after this item, or None if it is unchanged."""
        match item:
            case ReplayBegun(statements=count) | EditBegun(statements=count):
                self._begun, self._done, self._total = 0, 0, count
            case StatementRecorded(statement_id=statement, index=number) if self._total:
                self._numbers[statement] = number
            case ExecutionStarted(statement_id=statement) if self._begun < self._total:
                self._begun += 1
                number = self._numbers.get(statement) or self._number_of(statement)
                return Progress(self._done, self._total, f"statement {number} ({self._begun} of {self._total})")
            case ExecutionFinished() if self._done < self._begun:
                self._done += 1
                if self._done == self._total:
                    return Progress(self._done, self._total, f"{_counted(self._done, 'statement')} ran again")
            case ReplayEnded() | RunStop():
                self._begun = self._done = self._total = 0
            case StatementRerun(statement=number, place=place, total=total, state="begun" | "running"):
                return Progress(0, 0, f"restoring variables: statement {number} ({place} of {total})")
            case FilesPutBack(done=done, total=total):
                return Progress(done, total, f"{done} of {_counted(total, 'file')} put back")
            case _:
                pass
        return None


async def with_progress(
    session: Session, act: Callable[[], Awaitable[T]], report: Callable[[Progress], Awaitable[None]]
) -> T:
    """Return the result of `act`, and `report` its progress meanwhile.

    The last progress is reported before this returns. A slow `report` misses some in between. Reports include what
    others make the session run again meanwhile. Raises what `act` raises.
    """
    subscription = session.subscribe()
    given: list[T] = []
    failures: list[EngineError] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, session, subscription, report)
        try:
            given.append(await act())
        except EngineError as error:  # which the task group would wrap
            failures.append(error)
        finally:
            session.unsubscribe(subscription)
    if failures:
        raise failures[0]
    return given[0]


async def _tell(session: Session, subscription: Subscription, report: Callable[[Progress], Awaitable[None]]) -> None:
    def number_of(statement_id: StatementId) -> int | None:
        statement = session.statement(statement_id)
        return None if statement is None else statement.index

    fold = RerunProgress(number_of)
    async for batch in subscription.batches(pace=0):
        latest = None
        for item in batch:
            latest = fold.apply(item) or latest
        if latest is not None:
            await report(latest)


def _counted(number: int, noun: str) -> str:
    return f"{number} {plural(number, noun)}"
