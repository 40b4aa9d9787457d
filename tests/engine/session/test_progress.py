"""How far statements are that run again, and files that go back, is told in order, and all of it before the end."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine import Progress, Session, with_progress
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.log.store.memory import MemoryStore
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
FILES = 3


class Told:
    """What was reported of each act, one after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.progress: list[Progress] = []

    async def note(self, progress: Progress) -> None:
        self.progress.append(progress)

    def taken(self) -> list[tuple[int, int, str]]:
        """What came since, of which `done` has only grown."""
        told, self.progress = self.progress, []
        assert [each.done for each in told] == sorted({each.done for each in told})
        return [(each.done, each.total, each.text) for each in told]


async def test_each_statement_and_each_file_is_told_once_and_in_order(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, MemoryStore(SystemClock())) as sessions:
        session = await sessions.create(str(tmp_path))
        for number in range(1, FILES + 1):
            await session.accept(f"x = {number}; w = write('{number}.txt', '')").end()
        told = Told(session)
        await with_progress(session, lambda: session.replay(2), told.note)
        *_, last = told.taken()
        assert last == (2, 2, "2 statements ran again")
        await with_progress(session, lambda: session.replay(1, mode="live"), told.note)
        assert [text for *_, text in told.taken()][-1] == "3 statements ran again"
        await with_progress(session, lambda: session.edit(2, "x = 20"), told.note)
        taken = told.taken()
        assert taken[-1] == (2, 2, "2 statements ran again")
        assert {total for _, total, _ in taken} == {2}
        await with_progress(session, lambda: session.switch("main"), told.note)
        assert told.taken() == []  # an edit without effects has left the files alone
        await with_progress(session, lambda: session.rewind(0), told.note)
        assert told.taken()[-1] == (3, 3, "3 of 3 files put back")
        with pytest.raises(InvalidRequestError, match="No statement has run yet"):
            await with_progress(session, lambda: session.replay(1), told.note)
        assert told.taken() == []


async def test_who_was_told_costs_nothing_afterwards(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, MemoryStore(SystemClock())) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("x = 1").end()
        reader = session.subscribe()
        session.unsubscribe(reader)
        await session.accept("x = 2").end()
        assert reader.published == 0
        assert [batch async for batch in reader.batches(pace=0)] == []


async def test_what_is_still_to_be_told_at_the_end_is_told_before_it(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, MemoryStore(SystemClock())) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("x = 1").end()
        is_over, told = anyio.Event(), list[Progress]()

        async def act() -> None:
            await session.replay(1)
            is_over.set()

        async def note(progress: Progress) -> None:
            await is_over.wait()
            told.append(progress)

        await with_progress(session, act, note)
        assert (told[-1].done, told[-1].total) == (1, 1)
