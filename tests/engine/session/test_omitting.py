"""A session goes on without a statement: one that the user leaves out, and one that breaks every worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine import Session
from engine.log.events.conversation import AgentText
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import EnvironmentRestored
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

OURS = "next(module for name, module in sys.modules.items() if name.endswith('worker.statements.executor'))"


async def said(session: Session, text: str) -> str:
    await session.accept(text).end()
    return [event.text for event in session.events if isinstance(event, AgentText)][-1]


async def value(session: Session, source: str) -> str | None:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished.value


def restored(session: Session) -> EnvironmentRestored:
    return [event for event in session.events if isinstance(event, EnvironmentRestored)][-1]


async def test_a_statement_is_left_out_and_taken_in_again(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("x = 1", "x = 100", "y = x"):
            await session.cell(source)
        assert "No statement is left out" in await said(session, "/omit")
        assert "Statement 2 is left out of the namespace" in await said(session, "/omit 2")
        assert await value(session, "x, y") == "(1, 1)"
        assert "<statement 2> is left out, as the user asked" in restored(session).divergences
        assert re.search(r"x = 100` \(ok, \d+ ms, left out\)", await said(session, "/omit"))
        session_id = session.session_id
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session_id)
        assert await value(session, "x") == "1"
        assert "Statement 2 is in the namespace again" in await said(session, "/omit 2")
        assert await value(session, "x, y") == "(100, 100)"


async def test_what_fails_without_a_statement_that_is_left_out_does_not_bring_its_names_back(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("import os", "a = [1]", "a.append(2); os.system('true')", "b = a", "os.system('true'); c = [3]"):
            await session.cell(source)
        await said(session, "/omit 2")
        assert await value(session, "[name for name in 'abc' if name in globals()], c") == "(['c'], [3])"
        await said(session, "/omit 2")
        assert await value(session, "a, b is a, c") == "([1, 2], True, [3])"


async def test_what_a_later_statement_deletes_is_gone_when_a_statement_is_taken_in_again(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await session.accept("/omit 1").end()
        assert (await session.cell("del x")).status == "error"
        await session.accept("/omit 1").end()
        assert await value(session, "'x' in globals()") == "False"


async def test_what_ran_since_a_statement_was_left_out_is_as_it_was(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        await said(session, "/omit 1")
        drawn = await value(session, "import os; y = os.urandom(8).hex(); y")
        await session.rest()
        assert await value(session, "y") == drawn
        await said(session, "/omit 1")
        # It could come out differently now that the other one is back, and does.
        assert await value(session, "y") != drawn


@pytest.mark.parametrize("number", ["0", "4", "-1", "x", "9" * 5000, "\u0662"])
async def test_there_is_no_such_statement(tmp_path: Path, number: str) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        answer = await said(session, f"/omit {number}")
        assert answer.startswith("There is no statement")
        assert len(answer) < 100
        assert await value(session, "x") == "1"


def faults(session: Session) -> list[str]:
    """What the last rebuild said of statements, without what became of their names."""
    return [sentence.partition(";")[0] for sentence in restored(session).divergences]


async def test_a_statement_that_breaks_its_process_costs_one_more_and_is_named(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("x = 1", f"import sys; {OURS}.Result = None", "y = 2"):
            await session.cell(source)
        failed = [event for event in session.events if isinstance(event, ExecutionFinished)][-1]
        assert failed.exception is not None
        assert failed.exception.type == "WorkerDied"
        assert await value(session, "x") == "1"
        assert faults(session) == ["<statement 2> left Python unusable in its process and was left out"]


async def test_three_statements_that_end_every_worker_are_left_out(tmp_path: Path) -> None:
    ending = "import os, pathlib\nif pathlib.Path('now').exists(): os._exit(1)"
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for number in range(8):
            await session.cell(ending if number % 2 else f"x{number} = {number}")
        (tmp_path / "now").write_text("")
        await session.cell("import os; os._exit(1)")
        assert await value(session, "x0, x2, x4, x6") == "(0, 2, 4, 6)"
        assert faults(session) == [f"<statement {number}> ended the worker and was left out" for number in (2, 4, 6, 8)]
