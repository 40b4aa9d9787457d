"""The sessions of a process as a whole: deleted, opened by two, closed with their connections."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from engine.context.models import close_model
from engine.core.clock import SystemClock
from engine.core.errors import SessionInUseError, SessionNotFoundError
from engine.core.ids import SessionId
from engine.log.store import open_store
from engine.log.store.memory import MemoryStore
from engine.log.store_protocol import Store
from engine.session.journal import OutputStreamed
from tests.support.hollow import HollowEnvironment
from tests.support.models import AnsweringModel, says
from tests.support.sessions import session_in, sessions_of

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


async def test_deleting_closed_or_missing_sessions_does_nothing(tmp_path: Path, store: Store) -> None:
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        await sessions.close(session.session_id)
        for session_id in (session.session_id, session.session_id, SessionId("ses_never")):
            await sessions.delete(session_id)
        assert list(await sessions.rows()) == []


async def test_a_session_that_another_process_has_is_not_deleted(tmp_path: Path, store: Store) -> None:
    async with session_in(tmp_path, store) as session, sessions_of(tmp_path, store) as others:
        with pytest.raises(SessionInUseError) as refused:
            await others.delete(session.session_id)
        assert refused.value.pid == os.getpid()
        assert (await session.accept("1").end()).cause == "end_turn"
        assert [row.session_id for row in await others.rows()] == [session.session_id]


async def test_secret_printed_in_pieces_is_hidden_live(tmp_path: Path) -> None:
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


SECONDS = 5.0


class Unclosable(AnsweringModel):
    """A model whose connections cannot be closed."""

    async def aclose(self) -> None:
        await super().aclose()
        raise OSError("connection reset")


async def test_a_closed_session_closes_its_models_connections_once(tmp_path: Path) -> None:
    model = AnsweringModel(says("Yes."))
    async with sessions_of(tmp_path, model=model, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        assert (await session.accept("is it?").end()).cause == "end_turn"
        assert model.closes == 0
        await sessions.close(session.session_id)
        assert model.closes == 1
        await session.close()
    assert model.closes == 1


async def test_connections_are_closed_once_even_if_close_fails(tmp_path: Path) -> None:
    class Stuck(HollowEnvironment):
        async def close(self) -> None:
            if self.alive:
                self.alive = False
                raise OSError("no such process")

    model = AnsweringModel(says("Yes."))
    async with sessions_of(tmp_path, model=model, environments=Stuck) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("is it?").end()
        with pytest.raises(OSError, match="no such process"):
            await sessions.close(session.session_id)
        assert model.closes == 1
        await sessions.close(session.session_id)
    assert model.closes == 1


async def test_unused_session_closes_no_model(tmp_path: Path) -> None:
    model = AnsweringModel(says("Yes."))
    async with sessions_of(tmp_path, model=model, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        await sessions.close(session.session_id)
    assert model.closes == 0


async def test_connections_that_cannot_be_closed_do_not_fail_the_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Unclosable(says("Yes."))
    async with sessions_of(tmp_path, model=model, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("is it?").end()
        await sessions.close(session.session_id)
    assert model.closes == 1
    assert "connections of model answering could not be closed" in caplog.text


async def test_connections_that_do_not_close_are_left_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    class Hanging(AnsweringModel):
        async def aclose(self) -> None:
            await super().aclose()
            await anyio.sleep_forever()

    model = Hanging(says("Yes."))
    with anyio.fail_after(SECONDS):
        await close_model(model, seconds=0.01)
    assert model.closes == 1
    assert "were not closed within 0.01 s" in caplog.text


async def test_connections_are_closed_even_by_a_cancelled_task() -> None:
    class Slow(AnsweringModel):
        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().aclose()

    model = Slow(says("Yes."))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await close_model(model)
    assert model.closes == 1
