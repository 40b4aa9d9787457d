"""Statements from outside a turn: in the queue with prompts, on the log with what came of them, in no View."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from engine import OutputStreamed, Session
from engine.context.model import ModelSignal, Prompt, TextDelta
from engine.core.clock import SystemClock
from engine.core.errors import (
    InvalidEventError,
    InvalidRequestError,
    SessionBusyError,
    SessionReadOnlyError,
    StatementWithdrawnError,
)
from engine.core.ids import MessageId, SessionId, StatementId, ToolCallId
from engine.core.python_source import MOST_TAGS
from engine.log.cycles import cycles_of
from engine.log.events import Event
from engine.log.events.conversation import RunStop, ToolCall, UserMessage
from engine.log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from engine.log.events.session import ProjectionSent, PromptQueued, PromptWithdrawn, SessionOpened
from engine.log.past import Preserved
from engine.log.statements import EffectHandler, OutputSink, RunOutcome, RunRequest, TouchSink, ignore_touched
from engine.log.store.memory import MemoryStore
from engine.session.registry import Sessions
from tests.support.full_store import FullStore
from tests.support.hollow import HollowEnvironment
from tests.support.models import AnsweringModel
from tests.support.sessions import events_of, session_in, sessions_of
from tests.support.stores import kept_log

pytestmark = pytest.mark.anyio


async def until(session: Session, kind: type[Event], count: int = 1) -> None:
    """Until so many events of the kind were published."""
    subscription = session.subscribe()
    missing = count - len(events_of(session, kind))
    while missing > 0:
        async for batch in subscription.batches(pace=0):
            missing -= sum(isinstance(item, kind) for item in batch)
            if missing <= 0:
                return


async def test_cell_runs_and_is_recorded_outside_the_view(tmp_path: Path) -> None:
    asked: list[Prompt] = []

    def answer(prompt: Prompt) -> list[ModelSignal]:
        asked.append(prompt)
        return [TextDelta("Yes.")]

    async with session_in(tmp_path, model=AnsweringModel(answer)) as session:
        (tmp_path / "a.txt").write_text("content")
        finished = await session.cell("x = 40; read('a.txt')")
        assert (finished.value, finished.status, list(finished.diff.added)) == ("'content'", "ok", ["x"])
        assert (await session.cell("x + 2")).value == "42"
        assert asked == []
        assert session.view.events == ()
        assert [event.text for event in events_of(session, UserMessage) if event.aside] == [
            "x = 40; read('a.txt')",
            "x + 2",
        ]
        (call,) = events_of(session, ToolCall)
        assert call.parent_id == events_of(session, StatementRecorded)[0].tool_call_id
        assert events_of(session, ProjectionSent) == []
        cycles = cycles_of(session.events)
        assert (len(cycles.cycles), cycles.anomalies) == (2, ())
        assert (await session.accept("x?").end()).cause == "end_turn"
        assert [message.text for message in asked[0].messages] == ["x?"]


async def test_what_a_cell_returns_is_on_disk(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with sessions_of(tmp_path, store) as sessions:
        session = await sessions.create(str(tmp_path))
        finished = await session.cell("1 + 1")
        assert finished in store.load(session.session_id)
        await sessions.close(session.session_id)
        again = await sessions.load(session.session_id)
        await again.cell("x = 1")
        assert (await again.cell("x")).value == "1"


async def test_cells_and_prompts_wait_in_one_queue(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session, anyio.create_task_group() as tasks:
        order: list[str] = []

        async def cell(source: str) -> None:
            order.append(str((await session.cell(source)).value))

        ticket = session.accept("x = 1")
        tasks.start_soon(cell, "x += 1; x")
        await until(session, PromptQueued)
        last = session.accept("x += 1; x")
        tasks.start_soon(cell, "x += 1; x")
        await ticket.end()
        await last.end()
        await until(session, ExecutionFinished, 4)
    assert order == ["2", "4"]
    assert [event.value for event in events_of(session, ExecutionFinished)] == [None, "2", "3", "4"]
    assert [event.prompt_kind for event in events_of(session, UserMessage)] == ["direct", *["follow_up"] * 3]


async def test_cancelling_whoever_waits_for_a_running_cell_stops_it(session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        shown = session.subscribe()
        tasks.start_soon(session.cell, "x = 1\nprint('set', flush=True)\nwhile True: pass")
        async for batch in shown.batches(pace=0):
            if any(isinstance(item, OutputStreamed) for item in batch):
                break
        tasks.cancel_scope.cancel()
    (finished,) = events_of(session, ExecutionFinished)
    assert finished.status == "cancelled"
    assert [(stop.reason, stop.cause) for stop in events_of(session, RunStop)] == [("interrupted", "cancelled")]
    assert (await session.cell("x")).value == "1"


async def test_a_cell_that_is_cancelled_before_it_began_never_runs(session: Session) -> None:
    ticket = session.accept("while True: pass")
    await until(session, ExecutionStarted)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.cell, "y = 1")
        await until(session, PromptQueued)
        tasks.cancel_scope.cancel()
    assert len(events_of(session, PromptWithdrawn)) == 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_withdrawn, session)
        await until(session, PromptQueued, 2)
        session.cancel()
    assert (await ticket.end()).cause == "cancelled"
    assert (await session.cell("'y' in globals()")).value == "False"


async def _withdrawn(session: Session) -> None:
    with pytest.raises(StatementWithdrawnError, match="did not run"):
        await session.cell("y = 2")


async def test_a_cell_may_have_a_time_limit_of_its_own(session: Session) -> None:
    assert (await session.cell("while True: pass", seconds=0.1)).status == "timeout"
    assert [stop.cause for stop in events_of(session, RunStop)] == ["end_turn"]


async def test_closed_or_read_only_session_refuses_a_cell(tmp_path: Path) -> None:
    store = FullStore()
    async with sessions_of(tmp_path, store) as sessions:
        full, closed = await sessions.create(str(tmp_path)), await sessions.create(str(tmp_path))
        await sessions.close(closed.session_id)
        with pytest.raises(SessionBusyError):
            await closed.cell("1")
        store.fail(full.session_id)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionReadOnlyError):
            await full.cell("1")


async def test_cell_lost_before_it_began_is_ended_on_load(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    session_id = SessionId("ses_crashed")
    crashed = [
        SessionOpened(cwd=str(tmp_path)),
        UserMessage(message_id=MessageId("m"), text="x", aside=True),
        StatementRecorded(statement_id=StatementId("st"), index=1, source="x", tool_call_id=ToolCallId("c")),
    ]
    kept_log(store, session_id, str(tmp_path), crashed)
    async with session_in(tmp_path, store, load=session_id) as session:
        kinds = [event.kind for event in session.events[len(crashed) :]]
        assert kinds == ["execution_started", "execution_finished", "run_stop"]


ANNOUNCED = ["user_message", "round_opened", "statement_recorded", "execution_started"]


class Looking(HollowEnvironment):
    """Looks at the log when a statement comes, and when it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], list[str]] = list
        self.at_first: list[str] = []
        self.once_begun: list[str] = []
        self.busy = False

    @property
    def idle(self) -> bool:
        return self.alive and not self.busy

    def kept(self) -> Preserved | None:
        return Preserved()

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        self.at_first = self.look()
        self.ran.append(request.source)
        assert begun is not None
        begun()
        self.once_begun = self.look()
        return RunOutcome(status="ok")


async def begun_session(sessions: Sessions, environment: Looking, tmp_path: Path) -> Session:
    session = await sessions.create(str(tmp_path))
    await session.cell("first")
    before = len(session.events)
    environment.look = lambda: [event.kind for event in session.events[before:]]
    return session


async def test_idle_worker_gets_a_statement_before_it_is_recorded(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        await session.cell("second")
        assert (environment.at_first, environment.once_begun) == ([], ANNOUNCED)
        assert environment.look() == [*ANNOUNCED, "execution_finished", "run_stop"]


async def test_busy_worker_gets_a_recorded_statement(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        environment.busy = True
        await session.cell("second")
        assert environment.at_first == ANNOUNCED


async def test_statement_during_a_tick_gets_its_own_round(tmp_path: Path) -> None:
    async def linger(moment: str) -> None:
        if moment == "tick":
            running.set()
            await anyio.sleep(0.01)

    running = anyio.Event()
    environment = Looking()
    environment.meanwhile = linger
    async with session_in(tmp_path, environments=lambda: environment) as session:
        await session.cell("first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.tick)
            await running.wait()
            tasks.start_soon(session.cell, "second")
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(session.tick)
        rounds = [event.round_id for event in session.events if event.kind == "round_opened"]
        assert rounds == [0, 1, 2, 3]


async def test_statement_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        with pytest.raises(InvalidEventError):
            await session.cell("x = '\ud800'")
        assert (environment.ran, environment.look()) == (["first"], [])
        await session.cell("second")
        assert environment.ran == ["first", "second"]


async def test_tags_of_a_cell_are_checked_and_recorded(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        for wrong in ([" a"], ["a"] * (MOST_TAGS + 1)):
            with pytest.raises(InvalidRequestError):
                await session.cell("x = 1", tags=wrong)
        await session.cell("# tag: b\nx = 1", tags=("a", "b"))
        assert [cell.statement.tag_names for cell in session.cells] == [("b", "a")]
