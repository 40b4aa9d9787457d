"""Sessions whose namespace is held by checkpoints: what comes back, from where, and what is on the log of that."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from engine import Session
from engine.log.events import Event
from engine.log.events.execution import CheckpointDropped, CheckpointTaken, ExecutionFinished
from engine.log.events.session import EnvironmentRestored
from tests.support.environments import PATIENCE
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
CHECKPOINTS: dict[str, object] = {"restore_by": "checkpoints"}
ACT = "number = os.open('made', os.O_CREAT | os.O_WRONLY | os.O_APPEND); os.write(number, b'once'); os.close(number)"
E = TypeVar("E", bound=Event)


def of(session: Session, kind: type[E]) -> list[E]:
    return [event for event in session.events if isinstance(event, kind)]


async def run(session: Session, source: str) -> str | None:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished.value


async def test_after_a_crash_names_are_there_that_running_again_would_not_bring_back(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        key = await run(session, f"import os; key = os.urandom(8); made = iter([1, 2]); next(made); {ACT}; key")
        await session.cell("os._exit(1)")
        assert await run(session, "key") == key
        assert await run(session, "next(made)") == "2"
        (restored,) = of(session, EnvironmentRestored)
        assert (restored.executions, restored.divergences) == (0, ())
        assert (tmp_path / "made").read_bytes() == b"once"
        assert of(session, CheckpointTaken)[0].execution_id == of(session, ExecutionFinished)[0].execution_id


async def test_what_comes_out_otherwise_after_a_checkpoint_is_set_from_copies_of_before_it(tmp_path: Path) -> None:
    thread = "import threading; t = threading.Event(); threading.Thread(target=t.wait, daemon=True).start()"
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, f"import os; a = [1]; b = {{'k': a}}; c = [a, b]; {ACT}")
        # With a thread at work there is no checkpoint of this one.
        await run(session, f"{thread}\nif os.path.exists('a.txt'): c = [a]\nelse: del a")
        (tmp_path / "a.txt").write_text("now")
        await session.cell("os._exit(1)")
        assert await run(session, "'a' in globals(), c") == "(False, [[1], {'k': [1]}])"
        (restored,) = of(session, EnvironmentRestored)
        assert restored.executions == 1
        assert any("deleted other names: a" in each for each in restored.divergences)
        assert any("c set from what was kept" in each for each in restored.divergences)


async def test_a_rewind_and_the_way_back_take_the_namespace_of_each_side(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        first = await run(session, f"import os; key = os.urandom(8); {ACT}; key")
        second = await run(session, f"key = os.urandom(8); {ACT}; key")
        await session.rewind(1)
        assert await run(session, "key") == first
        await session.switch("main")
        assert await run(session, "key") == second
        assert [each.executions for each in of(session, EnvironmentRestored)] == [0, 0]


async def test_a_statement_that_is_left_out_goes_back_before_it(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        first = await run(session, f"import os; key = os.urandom(8); {ACT}; key")
        await run(session, f"key = 2; {ACT}")
        await session.accept("/omit 2").end()
        assert await run(session, "key") == first


async def test_statements_that_run_again_with_effects_begin_at_the_checkpoint_before_them(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, f"import os; key = os.urandom(8); {ACT}")
        await run(session, "again = key")
        assert (await session.replay(2, mode="live")).outcome == "completed"
        assert [each.executions for each in of(session, EnvironmentRestored)] == [0]
        # What is left behind a replay that ends earlier begins at the one after that.
        await session.replay(1, 1, mode="live")
        assert await run(session, "again == key") == "True"
        assert [each.executions for each in of(session, EnvironmentRestored)] == [0, 1]


async def test_where_nothing_is_left_to_run_again_the_next_statement_finds_an_empty_namespace(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("import os; os._exit(1)")
        assert await run(session, "x = 1; x") == "1"
        await session.rewind(0)
        assert await run(session, "'x' in globals()") == "False"
        await session.switch("main")
        assert (await session.edit(1, "x = 2")).outcome == "completed"
        assert await run(session, "x") == "1"  # what the second statement bound comes after the first


async def test_why_there_is_no_checkpoint_is_said_once(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(
            session, f"import os, threading; t = threading.Event(); threading.Thread(target=t.wait).start(); {ACT}"
        )
        for _ in range(3):
            await run(session, ACT)
        await run(session, "t.set()")
        reasons = [each.reason for each in of(session, CheckpointDropped)]
        assert reasons == ["1 thread of the statements at work"]
        await session.cell("os._exit(1)")
        assert await run(session, "number >= 0") == "True"


async def test_what_became_of_a_checkpoint_is_recorded_when_the_session_is_idle(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, settings=CHECKPOINTS) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, "x = 1")
        with anyio.fail_after(PATIENCE):
            while not of(session, CheckpointTaken):  # noqa: ASYNC110 -- a session tells nobody what it does while idle
                await anyio.sleep(0.01)


async def test_without_the_setting_none_is_taken(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await run(session, f"import os; {ACT}")
        await run(session, "1")
        assert not of(session, CheckpointTaken)
