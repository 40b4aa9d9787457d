"""Sessions whose store cannot take them: in memory, to be read only, and resumed when there is room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.core.errors import SessionReadOnlyError, StoreError
from engine.core.ids import SessionId
from engine.log.events.conversation import AgentText, RunStop, UserMessage
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import CommitListener, SessionRow
from engine.session.registry import Sessions
from tests.support.full_store import FullStore
from tests.support.hollow import HollowEnvironment
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio


class ClosedStore(MemoryStore):
    """Takes nothing as long as `is_full`."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.is_full = False

    def create(self, row: SessionRow) -> None:
        self._check()
        super().create(row)

    def acquire(self, session_id: SessionId, committed: CommitListener) -> None:
        self._check()
        super().acquire(session_id, committed)

    def _check(self) -> None:
        if self.is_full:
            raise StoreError("the disk is full; free some space")


async def test_session_without_a_store_lives_in_memory_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ClosedStore()
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        kept = await sessions.create(str(tmp_path))
        store.is_full = True
        session = await sessions.create(str(tmp_path))
        assert (await session.accept("1 + 1").end()).cause == "end_turn"
        (warning,) = [
            event.text for event in session.events if isinstance(event, AgentText) and "not saved" in event.text
        ]
        assert warning.strip() == (
            "This session is not saved: it ends with this process. The reason: the disk is full; free some space."
        )
        assert f"session {session.session_id} is in memory only: the disk is full" in caplog.text
        listed = [row.session_id for row in await sessions.rows()]
        assert listed == [session.session_id, kept.session_id]
        assert [row.session_id for row in await sessions.rows(limit=1)] == listed[:1]
        assert [row.session_id for row in await sessions.rows(cwd=str(tmp_path))] == listed
        assert [row.session_id for row in store.rows()] == [kept.session_id]
        await sessions.close(session.session_id)
        again = await sessions.load(session.session_id)
        assert (await again.accept("2").end()).cause == "end_turn"
        await sessions.delete(session.session_id)
        assert [row.session_id for row in await sessions.rows()] == [kept.session_id]
        store.is_full = False
        last = await sessions.create(str(tmp_path))
        assert last.session_id in [row.session_id for row in store.rows()]


async def test_session_in_a_full_store_is_read_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = ClosedStore()
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("x = 1").end()
        await sessions.close(session.session_id)
        store.is_full = True
        loaded = await sessions.load(session.session_id, str(tmp_path))
        assert loaded.events == session.events
        with pytest.raises(SessionReadOnlyError, match="the disk is full"):
            loaded.accept("x = 2")
        with pytest.raises(SessionReadOnlyError):
            loaded.set_mode("plan")
        assert "is opened read-only: the disk is full" in caplog.text
        await sessions.close(session.session_id)
        store.is_full = False
        again = await sessions.load(session.session_id)
        assert (await again.accept("x = 2").end()).cause == "end_turn"
        texts = [event.text for event in events_of(again, UserMessage)]
        assert (texts, sum(isinstance(event, RunStop) for event in again.events)) == (["x = 1", "x = 2"], 2)


async def test_interrupted_session_in_a_full_store_can_be_read(tmp_path: Path) -> None:
    store = ClosedStore()
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
    log = store.load(session.session_id)
    store.acquire(session.session_id, lambda _seq, _error: None)
    asked = UserMessage(seq=len(log), event_id=f"e{len(log)}", message_id="m", text="cut off")
    store.submit(session.session_id, asked)
    store.release(session.session_id)
    store.is_full = True
    async with session_in(tmp_path, store, load=session.session_id, environments=HollowEnvironment) as loaded:
        assert loaded.events[-1] == asked


@pytest.fixture
def store() -> FullStore:
    return FullStore()


@pytest.fixture
async def sessions(store: FullStore, tmp_path: Path) -> AsyncIterator[Sessions]:
    lent: Any = store
    async with sessions_of(tmp_path, lent) as opened:
        yield opened


@pytest.mark.slow
async def test_session_resumes_once_the_store_has_room(store: FullStore, sessions: Sessions, tmp_path: Path) -> None:
    session = await sessions.open("work", str(tmp_path))
    await session.cell("a = 1")
    store.is_full = True
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):
        await session.cell("b = 2")
    assert session.is_read_only
    assert await sessions.renew(session) is session
    assert (await session.look()).rows == ()
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):
        await session.cell("c = 3")
    store.is_full = False
    renewed = await sessions.renew(session)
    assert renewed is not session
    assert await sessions.renew(session) is renewed
    with pytest.raises(SessionReadOnlyError, match="the disk is full"):  # of a call that found it before
        await session.cell("late = 4")
    assert [cell.statement.source for cell in renewed.cells] == ["a = 1"]
    assert (await renewed.cell("a, 'b' in globals()")).value == "(1, False)"
    assert sessions.find(renewed.session_id) is renewed
    with anyio.fail_after(1):
        await sessions.close(renewed.session_id)


async def test_one_that_is_not_read_only_stays_as_it_is(sessions: Sessions, tmp_path: Path) -> None:
    session = await sessions.open("work", str(tmp_path))
    assert await sessions.renew(session) is session
