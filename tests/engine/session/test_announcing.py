"""What announces a statement is recorded while the worker is at it, if that was idle, and ahead of it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from engine import Session
from engine.core.errors import InvalidEventError
from engine.log.past import Preserved
from engine.log.statements import EffectHandler, OutputSink, RunOutcome, RunRequest, TouchSink, ignore_touched
from engine.session.registry import Sessions
from tests.support.hollow import HollowEnvironment
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio
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


async def test_an_idle_worker_is_sent_a_statement_before_anything_of_it_is_recorded(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        await session.cell("second")
        assert (environment.at_first, environment.once_begun) == ([], ANNOUNCED)
        assert environment.look() == [*ANNOUNCED, "execution_finished", "run_stop"]


async def test_a_worker_that_is_busy_gets_a_statement_that_is_on_the_log(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        environment.busy = True
        await session.cell("second")
        assert environment.at_first == ANNOUNCED


async def test_a_statement_during_a_tick_gets_a_round_of_its_own(tmp_path: Path) -> None:
    async def linger(moment: str) -> None:
        if moment == "tick":
            running.set()
            await anyio.sleep(0.01)

    running = anyio.Event()
    environment = Looking()
    environment.meanwhile = linger
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.tick)
            await running.wait()
            tasks.start_soon(session.cell, "second")
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(session.tick)
        rounds = [event.round_id for event in session.events if event.kind == "round_opened"]
        assert rounds == [0, 1, 2, 3]


async def test_a_statement_that_is_no_unicode_is_refused_and_does_not_run(tmp_path: Path) -> None:
    environment = Looking()
    async with sessions_of(tmp_path, environments=lambda: environment) as sessions:
        session = await begun_session(sessions, environment, tmp_path)
        with pytest.raises(InvalidEventError):
            await session.cell("x = '\ud800'")
        assert (environment.ran, environment.look()) == (["first"], [])
        await session.cell("second")
        assert environment.ran == ["first", "second"]
