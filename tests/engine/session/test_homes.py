"""Where sessions live whose store cannot take them: new ones in memory, stored ones to be read only."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.clock import SystemClock
from engine.core.errors import SessionReadOnlyError, StoreError
from engine.core.ids import SessionId
from engine.log.events.conversation import AgentText, RunStop, UserMessage
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import CommitListener, SessionRow
from tests.support.hollow import HollowEnvironment
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


class FullStore(MemoryStore):
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


async def test_a_new_session_that_the_store_cannot_take_lives_in_memory_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FullStore()
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


async def test_a_session_whose_store_cannot_be_written_is_loaded_to_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FullStore()
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
        assert "is opened to be read only: the disk is full" in caplog.text
        await sessions.close(session.session_id)
        store.is_full = False
        again = await sessions.load(session.session_id)
        assert (await again.accept("x = 2").end()).cause == "end_turn"
        texts = [event.text for event in again.events if isinstance(event, UserMessage)]
        assert (texts, sum(isinstance(event, RunStop) for event in again.events)) == (["x = 1", "x = 2"], 2)


async def test_an_interrupted_session_can_be_read_where_its_end_cannot_be_written(tmp_path: Path) -> None:
    store = FullStore()
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
    log = store.load(session.session_id)
    store.acquire(session.session_id, lambda _seq, _error: None)
    asked = UserMessage(seq=len(log), event_id=f"e{len(log)}", message_id="m", text="cut off")
    store.submit(session.session_id, asked)
    store.release(session.session_id)
    store.is_full = True
    async with sessions_of(tmp_path, store, environments=HollowEnvironment) as sessions:
        loaded = await sessions.load(session.session_id)
        assert loaded.events[-1] == asked
