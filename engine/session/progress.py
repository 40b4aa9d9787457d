"""How far statements have come that run again, or files that go back: which of how many, for who waits for that.

`RerunProgress` is a pure fold over what a session publishes; the console has it, too. Called by the command line and by
adapters, beside `Session.replay`, `edit` and `rewind`. Must not know how it is shown.
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
    """`done` of `total` are over; `text` says in a few words which one is under way, or what was done.

    `total` is 0 while statements before those that were asked for run again, which count for nothing.
    """

    done: int
    total: int
    text: str


class RerunProgress:
    """The fold over one replay, edit or rewind after the other. `done` grows from one Progress to the next.

    `number_of` gives the number of a statement that was recorded before; None where there is none.
    """

    def __init__(self, number_of: Callable[[StatementId], int | None]) -> None:
        self._number_of = number_of
        self._numbers: dict[StatementId, int] = {}
        self._begun = self._done = self._total = 0

    def apply(self, item: Item) -> Progress | None:
        """How far it is with that; None where it is not farther than before."""
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
                return Progress(0, 0, f"first statement {number} again, for its names ({place} of {total})")
            case FilesPutBack(done=done, total=total):
                return Progress(done, total, f"{done} of {_counted(total, 'file')} put back")
            case _:
                pass
        return None


async def with_progress(
    session: Session, act: Callable[[], Awaitable[T]], report: Callable[[Progress], Awaitable[None]]
) -> T:
    """What `act` gives, while `report` is told how far the session is with it; the last of it before this returns.

    Where `report` is slower than the session, only the latest of what came meanwhile is reported. What others have the
    session run again meanwhile is reported, too. Raises what `act` raises.
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
