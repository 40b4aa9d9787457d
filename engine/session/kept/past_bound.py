"""Keeps what a session's past takes on disk within the setting `past_bytes`: the oldest copies of values are dropped.

Owns which go: only values, because answers, revisions of files and contents before a write cannot be had again, and
the oldest, because a rebuild takes the newest copy of a name that it can use. A little more than necessary goes at
once, so that not every statement drops something. The event that says so is what drops: its commit takes them out of
the store, so the log never tells of a drop that did not happen, nor is one missing from it. Must not know how values
are kept. Called when some were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ...core.errors import EngineError
from ...core.ids import Seq, SessionId
from ...log.event_log import EventLog
from ...log.events.execution import ValuesDropped, ValuesKept
from ...log.store_protocol import Droppable, Store
from ..publishing.journal import Journal

_SPARED_TENTHS: Final = 9
"""Of the limit, what the contents take after a drop where they can."""


class Drop(Struct, frozen=True):
    """What is to go: all that no event at `before` or later names, which is `copies` of so many bytes."""

    before: Seq
    copies: int
    size: int


def due_drop(droppable: Sequence[Droppable], size: int, limit: int) -> Drop | None:
    """What has to go so that contents of `size` bytes stay within `limit`; None where nothing has to, or can.

    Args:
        droppable: the oldest first. What one event names goes together.
        size: of all contents of the session, those that cannot be dropped included.
        limit: in bytes.
    """
    if size <= limit or not droppable:
        return None
    excess = size - limit * _SPARED_TENTHS // 10
    before, freed = Seq(0), 0
    for each in droppable:
        if freed >= excess:
            break
        before, freed = Seq(each.seq + 1), freed + each.size
    gone = [each.size for each in droppable if each.seq < before]
    return Drop(before, len(gone), sum(gone))


class PastBound:
    """One session's; see the module."""

    def __init__(self, store: Store, session_id: SessionId, log: EventLog, journal: Journal, limit: int) -> None:
        self._store = store
        self._session_id = session_id
        self._log = log
        self._journal = journal
        self._limit = limit

    async def hold(self) -> None:
        """Waits until what is on the log is committed, and appends what has to go, if anything has to.

        Where the store cannot be read or written the session says so elsewhere, and nothing goes.
        """
        try:
            await self._journal.durable(Seq(len(self._log) - 1))
            size = self._store.row(self._session_id).contents_size
            if size <= self._limit:  # because this is what nearly always is, and costs one look at one row
                return
            droppable = self._store.droppable(self._session_id)
            drop = due_drop(droppable, size, self._limit)
            if drop is not None:
                self._log.append(self._dropped(drop, droppable))
        except EngineError:
            return

    def _dropped(self, drop: Drop, droppable: Sequence[Droppable]) -> ValuesDropped:
        events = [self._log.at(each.seq) for each in droppable if each.seq < drop.before]
        executions = {event.execution_id for event in events if isinstance(event, ValuesKept)}
        return ValuesDropped(
            before=drop.before, executions=len(executions), copies=drop.copies, size=drop.size, limit=self._limit
        )
