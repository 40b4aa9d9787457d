"""What becomes of the sessions of a process as a whole: deleted, opened by two, told live with secrets taken out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.clock import SystemClock
from engine.core.errors import SessionInUseError, SessionNotFoundError
from engine.core.ids import SessionId
from engine.log.store import open_store
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Store
from engine.session.journal import OutputStreamed
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore(SystemClock()) if request.param == "memory" else open_store(tmp_path, SystemClock())
    yield made
    made.close()


async def test_deleting_an_open_session_cancels_what_runs_and_removes_it(tmp_path: Path, store: Store) -> None:
    async with sessions_of(tmp_path, store) as sessions:
        session, kept = await sessions.create(str(tmp_path)), await sessions.create(str(tmp_path))
        ticket = session.accept("while True: pass")
        await sessions.delete(session.session_id)
        assert (await ticket.end()).cause == "cancelled"
        assert [row.session_id for row in await sessions.rows()] == [kept.session_id]
        with pytest.raises(SessionNotFoundError):
            sessions.find(session.session_id)
        with pytest.raises(SessionNotFoundError):
            await sessions.load(session.session_id)
        assert (await kept.accept("1").end()).cause == "end_turn"


async def test_deleting_what_is_not_open_not_there_or_not_there_any_more(tmp_path: Path, store: Store) -> None:
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await sessions.close(session.session_id)
        for session_id in (session.session_id, session.session_id, SessionId("ses_never")):
            await sessions.delete(session_id)
        assert list(await sessions.rows()) == []


async def test_a_session_that_another_process_has_is_not_deleted(tmp_path: Path, store: Store) -> None:
    async with sessions_of(tmp_path, store) as sessions, sessions_of(tmp_path, store) as others:
        session = await sessions.create(str(tmp_path))
        with pytest.raises(SessionInUseError) as refused:
            await others.delete(session.session_id)
        assert refused.value.pid == os.getpid()
        assert (await session.accept("1").end()).cause == "end_turn"
        assert [row.session_id for row in await others.rows()] == [session.session_id]


async def test_a_secret_that_a_statement_prints_in_pieces_is_not_shown_while_it_runs(tmp_path: Path) -> None:
    secret = "sk-very-secret"
    async with sessions_of(tmp_path, MemoryStore(SystemClock()), EXAMPLE_TOKEN=secret) as sessions:
        session = await sessions.create(str(tmp_path))
        shown = session.subscribe()
        pieces = "for piece in ('a sk-v', 'ery-', 'sec', 'ret b', ' sk-', 'other', ' sk'):"
        ticket = session.accept(f"import time\n{pieces}\n    print(piece, end='', flush=True); time.sleep(0.02)")
        assert (await ticket.end()).cause == "end_turn"
        await sessions.close(session.session_id)
        items = [item async for batch in shown.batches(pace=0) for item in batch]
        printed = [item.text for item in items if isinstance(item, OutputStreamed)]
        assert len(printed) > 1
        assert "".join(printed) == "a *** b sk-other "
        assert any("a *** b sk-other sk" in str(item) for item in items)
