"""Moving the head: the conversation, the namespace and what waits go on where it leads, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine import Session
from engine.context.view import View
from engine.core.errors import InvalidRequestError
from engine.core.ids import SessionId
from engine.log.branches import SHOWN_BRANCHES, path_of
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import AgentText, Condensation, RunStop, ToolResult, UserMessage
from engine.log.events.going_back import BranchCreated, HeadMoved
from engine.log.events.session import EnvironmentRestored, PromptQueued
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.hollow import HollowEnvironment, Moment
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


async def value(session: Session, source: str) -> str | None:
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    return finished.value


async def said(session: Session, text: str) -> str:
    await session.accept(text).end()
    return [event.text for event in session.path if isinstance(event, AgentText)][-1]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_of_many_branches_the_first_the_active_and_the_newest_are_listed(tmp_path: Path) -> None:
    count = SHOWN_BRANCHES + 5
    async with sessions_of(tmp_path, environments=HollowEnvironment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        for _ in range(count):
            await session.rewind(1)
        await session.switch("b2")
        names = ["main", "b2", *(f"b{number}" for number in range(6, count + 1))]
        *lines, rest = (await said(session, "/branch")).splitlines()
        assert [line.split("`")[1] for line in lines] == names
        assert rest == "... 4 more branches in `rewindow branches`"
        with pytest.raises(InvalidRequestError, match=r"the session has main, b6, .*, b25 and 5 more\.$"):
            await session.switch("b99")


async def test_a_rewind_keeps_the_statement_and_what_was_before_it_and_a_switch_brings_the_rest_back(
    tmp_path: Path,
) -> None:
    store = MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("x = [1]", "x.append(2)", "x.append(3)"):
            await session.cell(source)
        cells = session.cells
        assert "is now branch `b1`, with 2 statements" in await said(session, "/rewind 2")
        assert [cell.statement for cell in session.cells] == [cell.statement for cell in cells[:2]]
        assert await value(session, "x") == "[1, 2]"
        assert session.cells[-1].statement.index == 3
        assert await value(session, "x.append(30); x") == "[1, 2, 30]"
        await session.switch("main")
        assert await value(session, "x") == "[1, 2, 3]"
        await session.rewind(0)
        assert not session.cells
        assert await value(session, "'x' in globals()") == "False"
        assert await said(session, "/branch") == (
            "- `main`: 4 statements\n"
            "- `b1`, from `main` after statement 2: 4 statements, 2 of its own\n"
            "- `b2`, from `main` at the beginning: 1 statement, active"
        )
        before = session.events
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.load(session.session_id)
        assert session.events[: len(before)] == before
        assert [row.name for row in session.branches if row.is_active] == ["b2"]
        for branch, expected in (("b1", "[1, 2, 30]"), ("main", "[1, 2, 3]")):
            await session.switch(branch)
            assert await value(session, "x") == expected
            assert not cycles_of(session.path).anomalies


async def test_what_names_no_statement_or_branch_changes_nothing_and_says_what_there_is(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1")
        for text, answer in (
            ("/rewind 2", "There is no statement 2; the only one is 1."),
            ("/rewind -1", "There is no statement -1; the only one is 1."),
            ("/rewind " + "9" * 40, "There is no statement 9999999999999999999…; the only one is 1."),
            ("/rewind \x1b[2J", "There is no statement \\x1b[2J; the only one is 1."),
            ("/branch b1", "There is no branch b1; the session has main."),
            ("/branch \x1b[2J", "There is no branch \\x1b[2J; the session has main."),
            ("/branch main", "main is active already; there are main"),
        ):
            assert await said(session, text) == answer
        with pytest.raises(InvalidRequestError, match="There is no statement 2"):
            await session.rewind(2)
        with pytest.raises(InvalidRequestError, match="There is no branch"):
            await session.switch("b1")
        assert not [event for event in session.events if isinstance(event, BranchCreated | HeadMoved)]
        assert not cycles_of(session.events).anomalies


async def test_a_path_that_ends_inside_a_run_begins_with_its_end_and_a_model_reads_that_alone(tmp_path: Path) -> None:
    model = AnsweringModel(runs("a = 1", "b = 2", "c = 3"))
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("go").end()
        await session.rewind(2)
        start = next(place for place, event in enumerate(session.path) if isinstance(event, HeadMoved))
        after = session.path[start:]
        assert kinds(after) == ["head_moved", "run_stop", "user_message", "agent_text", "run_stop"]
        assert isinstance(after[1], RunStop)
        assert after[1].reason == "interrupted"
        assert isinstance(session.path[start - 1], ToolResult)
        await session.accept("and now?").end()
        messages = model.prompts[-1].messages
        assert [event.text for event in messages if isinstance(event, UserMessage)] == ["go", "and now?"]
        assert sum(isinstance(event, ToolResult) for event in messages) == 2
        assert "this is branch b1, which goes on after statement 2" in model.prompts[-1].tail
        assert messages == View.from_events(session.path).ready(open_run=True)[: len(messages)]
        assert not cycles_of(session.path).anomalies


async def test_a_run_that_stopped_with_the_statement_is_held_to_its_stop(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("x = 1").end()
        await session.accept("x = 2").end()
        await session.rewind(1)
        place = next(place for place, event in enumerate(session.path) if isinstance(event, HeadMoved))
        assert kinds(session.path[place:]) == ["head_moved", "user_message", "agent_text", "run_stop"]
        assert cycles_of(session.path).cycles[0].stop == session.path[place - 1]


async def test_a_condensation_that_came_after_the_statement_is_undone_with_it(tmp_path: Path) -> None:
    model = AnsweringModel(runs("a = 1", "print('word ' * 2_000)", "c = 3"))
    async with sessions_of(tmp_path, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("go").end()
        whole = session.view.events
        await session.accept("/compact").end()
        assert any(isinstance(event, Condensation) for event in session.path)
        assert len(session.view) < len(whole)
        await session.rewind(1)
        assert session.view.events == whole[: len(session.view)]
        assert len(session.view) == 3


async def test_what_waits_is_announced_again_where_the_head_goes_and_runs_there(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for source in ("x = 1", "x = 2"):
            await session.cell(source)
        tickets = [
            session.accept(text)
            for text in ("import time; time.sleep(0.05)", "/rewind 1", "y = x", "/branch main", "z = x")
        ]
        for ticket in tickets:
            assert (await ticket.end()).cause == "end_turn"
        assert await value(session, "x, z, 'y' in globals()") == "(2, 2, False)"
        await session.switch("b1")
        assert await value(session, "x, y, 'z' in globals()") == "(1, 1, False)"
        queued = [event.text for event in session.events if isinstance(event, PromptQueued)]
        assert queued.count("z = x") == 3
        for branch in ("b1", "main"):
            cycles = cycles_of(session.path)
            assert not cycles.anomalies
            assert not cycles.queue
            assert not cycles.active
            if branch == "b1":
                await session.switch("main")


async def test_a_value_that_was_kept_after_the_cut_serves_the_rebuild(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("import os; token = os.urandom(8).hex()")
        token = await value(session, "token")
        await session.rewind(1)
        assert await value(session, "token") == token
        restored = [event for event in session.path if isinstance(event, EnvironmentRestored)]
        assert restored[-1].executions == 1


async def test_a_namespace_that_is_being_rebuilt_while_the_head_moves_is_not_the_one_that_is_used(
    tmp_path: Path,
) -> None:
    made: list[HollowEnvironment] = []
    rebuilding, goes_on = anyio.Event(), anyio.Event()

    async def meanwhile(moment: Moment) -> None:
        if moment == "restore" and len(made) == 2:
            rebuilding.set()
            await goes_on.wait()

    def make() -> HollowEnvironment:
        made.append(HollowEnvironment(meanwhile))
        return made[-1]

    async with sessions_of(tmp_path, environments=make) as sessions, anyio.create_task_group() as tasks:
        session = await sessions.create(str(tmp_path))
        for source in ("x = 1", "x = 2", "x = 3"):
            await session.cell(source)
        await session.rest()
        tasks.start_soon(session.count, ["text"])
        await rebuilding.wait()
        tasks.start_soon(session.rewind, 1)
        await anyio.wait_all_tasks_blocked()
        goes_on.set()
        await session.idle()
        await session.cell("y = 4")
        assert [environment.alive for environment in made] == [False, False, True]
        assert made[-1].restored == ["x = 1"]


@pytest.mark.slow
async def test_a_process_that_is_killed_anywhere_in_a_move_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    """Every log that may be left is loaded: of each path nothing is lost, and nothing is out of order."""
    model = AnsweringModel(runs(*"abcdef"))
    store = MemoryStore(FixedClock())
    settings: dict[str, object] = {"max_rounds": 2}
    async with sessions_of(tmp_path, store, model=model, environments=HollowEnvironment, settings=settings) as sessions:
        session = await sessions.create(str(tmp_path))
        for texts in (("go",), ("go", "/rewind 1", "more", "/branch main", "even more"), ("/rewind 0",)):
            tickets = [session.accept(text) for text in texts]
            for ticket in tickets:
                await ticket.end()
        log, row = session.events, store.row(session.session_id)
    moves = [event.seq for event in log if isinstance(event, BranchCreated | HeadMoved)]
    assert len(moves) == 5
    for end in range(moves[0], len(log) + 1):
        left, killed = MemoryStore(FixedClock()), log[:end]
        left.add(replace(row, session_id=SessionId("ses_left")), killed)
        async with sessions_of(tmp_path, left, model=model, environments=HollowEnvironment) as sessions:
            session = await sessions.load(SessionId("ses_left"))
            assert session.events[:end] == killed
            assert [row.name for row in session.branches if row.is_active] == [killed[-1].branch_id]
            assert session.path[: len(path_of(killed))] == tuple(path_of(killed))
            for _ in session.branches:
                cycles = cycles_of(session.path)
                assert not cycles.anomalies, end
                assert not cycles.active
                assert not cycles.queue
                assert not session.view.enforced().corrections
                await session.accept("go").end()
                if others := [row.name for row in session.branches if not row.is_active]:
                    await session.switch(others[0])
