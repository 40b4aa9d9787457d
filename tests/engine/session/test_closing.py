"""What a session that is closed gives back: its worker and its model's connections, once, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from engine.context.models import close_model
from tests.support.hollow import HollowEnvironment
from tests.support.models import AnsweringModel, says
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
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


async def test_the_connections_are_closed_once_also_where_the_first_close_fails(tmp_path: Path) -> None:
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


async def test_a_session_that_was_asked_nothing_has_no_model_to_close(tmp_path: Path) -> None:
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


async def test_connections_are_closed_also_where_the_closing_task_is_being_cancelled() -> None:
    class Slow(AnsweringModel):
        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().aclose()

    model = Slow(says("Yes."))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await close_model(model)
    assert model.closes == 1
