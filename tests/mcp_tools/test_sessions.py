"""Which sessions a server holds: opened once each, put to rest when idle, closed where another one needs the place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.errors import EngineError
from mcp_tools import sessions
from mcp_tools.bench import Bench
from mcp_tools.errors import CallError
from mcp_tools.roots import Roots, RootsError
from mcp_tools.sessions import REST_SECONDS, BenchPool
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


class FakeSession:
    """What the pool uses of a session."""

    def __init__(self, name: str) -> None:
        self.session_id = name
        self.rests = 0
        self.ending = anyio.Event()
        self.ending.set()
        self.is_busy = False
        self.is_read_only = False
        self.failure: EngineError | None = None

    async def rest(self) -> None:
        self.rests += 1
        await self.ending.wait()
        if self.failure is not None:
            raise self.failure


class FakeSessions:
    """What the pool uses of an engine; notes what was opened and closed."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.renewed = 0
        self.takes_changes = False

    async def open(self, name: str | None, _cwd: str, _directories: Sequence[str], **_options: Any) -> FakeSession:
        await anyio.lowlevel.checkpoint()
        self.opened.append(name or "")
        return FakeSession(name or "")

    async def renew(self, session: FakeSession) -> FakeSession:
        await anyio.lowlevel.checkpoint()
        self.renewed += 1
        return FakeSession(session.session_id) if self.takes_changes else session

    async def close(self, session_id: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed.append(session_id)


class Desk:
    """A pool over a fake engine, with a clock that stands still."""

    def __init__(self) -> None:
        self.engine: Any = FakeSessions()
        self.root = Path("/")
        self.seconds = 0.0
        self.pool = BenchPool(self._engine, confined=True, now=lambda: self.seconds)

    async def _engine(self) -> Any:
        return self.engine

    async def open(self, key: str) -> Bench:
        async def roots() -> Roots:
            return Roots((str(self.root),))

        return await self.pool.bench(key, key, roots, "a test")

    async def wait(self, seconds: float) -> None:
        self.seconds += seconds
        await self.pool.rest_idle()


def fake(bench: Bench) -> FakeSession:
    session: Any = bench.session
    assert isinstance(session, FakeSession)
    return session


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    return Desk()


async def test_what_is_idle_for_half_an_hour_rests_once_until_it_is_used(desk: Desk) -> None:
    idle, used, busy = fake(await desk.open("idle")), fake(await desk.open("used")), fake(await desk.open("busy"))
    busy.is_busy = True
    await desk.wait(REST_SECONDS - 1)
    await desk.open("used")
    assert (idle.rests, used.rests, busy.rests) == (0, 0, 0)
    for _ in range(2):
        await desk.wait(2)
        assert (idle.rests, used.rests, busy.rests) == (1, 0, 0)
    assert [key for key, _ in desk.pool.awake()] == ["used", "busy"]
    assert await desk.pool.find("idle") is not None
    assert [key for key, _ in desk.pool.awake()] == ["idle", "used", "busy"]
    await desk.wait(REST_SECONDS + 1)
    assert (idle.rests, used.rests, busy.rests) == (2, 1, 0)


async def test_a_session_that_cannot_be_kept_is_opened_again_when_it_can(desk: Desk) -> None:
    full = fake(await desk.open("full"))
    assert desk.engine.renewed == 0
    full.is_read_only = True
    for _ in range(3):
        assert fake(await desk.open("full")) is full
    assert desk.engine.renewed == 1
    desk.engine.takes_changes = True
    desk.seconds += 1.9
    assert fake(await desk.open("full")) is full
    desk.seconds += 0.1
    again = fake(await desk.open("full"))
    assert again is not full
    assert fake(await desk.open("full")) is again
    assert desk.engine.renewed == 2


async def test_what_cannot_be_put_to_rest_ends_nothing(desk: Desk) -> None:
    broken, other = fake(await desk.open("broken")), fake(await desk.open("other"))
    broken.failure = EngineError("no")
    await desk.wait(REST_SECONDS + 1)
    assert (broken.rests, other.rests) == (1, 1)


async def test_the_session_that_has_rested_longest_gives_way(desk: Desk) -> None:
    for key in ("a", "b", "c"):
        await desk.open(key)
        desk.seconds += 1
    await desk.open("a")
    with pytest.raises(CallError, match=r"3 sessions in use, the most there can be; .* idle for 30 minutes"):
        await desk.open("d")
    await desk.wait(REST_SECONDS + 1)
    await desk.open("b")
    await desk.open("d")
    assert desk.engine.closed == ["c"]
    await desk.open("c")
    assert desk.engine.closed == ["c", "a"]
    assert desk.engine.opened == ["a", "b", "c", "d", "c"]
    with pytest.raises(CallError, match="the most there can be"):
        await desk.open("a")


async def test_many_at_once_open_a_session_once_and_wait_for_no_roots_but_their_own(desk: Desk) -> None:
    answered = anyio.Event()

    async def slow() -> Roots:
        await answered.wait()
        return Roots(("/",))

    async def none() -> Roots:
        raise RootsError("/ is too wide")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.pool.bench, "slow", "slow", slow, "a test")
        await anyio.wait_all_tasks_blocked()
        found: list[Bench] = []

        async def opened() -> None:
            found.append(await desk.open("a"))

        async with anyio.create_task_group() as others:
            for _ in range(5):
                others.start_soon(opened)
        answered.set()
        assert len({id(each) for each in found}) == 1
        with pytest.raises(CallError, match="No session can be opened: / is too wide"):
            await desk.pool.bench("wide", None, none, "a test")
    assert desk.engine.opened == ["a", "slow"]


async def test_a_call_that_comes_while_a_session_is_put_to_rest_waits_for_that(desk: Desk) -> None:
    session = fake(await desk.open("a"))
    session.ending = anyio.Event()
    order: list[str] = []

    async def rest() -> None:
        await desk.wait(REST_SECONDS + 1)
        order.append("rested")

    async def call() -> None:
        await desk.open("a")
        order.append("called")

    async with anyio.create_task_group() as tasks:
        for each in (rest, call):
            tasks.start_soon(each)
            await anyio.wait_all_tasks_blocked()
        assert order == []
        session.ending.set()
    assert sorted(order) == ["called", "rested"]
    assert [key for key, _ in desk.pool.awake()] == ["a"]


async def test_a_session_that_gave_way_is_there_again_with_its_handles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 1)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    desk = Desk()
    async with sessions_of(tmp_path) as engine:
        desk.engine, desk.root = engine, tmp_path
        first = await desk.open("first")
        await first.act("a = view('a.txt')")
        await desk.wait(REST_SECONDS + 1)
        await (await desk.open("second")).act("b = view('a.txt')")
        with pytest.raises(CallError, match="1 sessions in use"):
            await desk.open("first")
        await desk.wait(REST_SECONDS + 1)
        again = await desk.open("first")
        assert again.session is not first.session
        assert again.handles.names() == ["a"]
        assert "two" in (await again.look(["a"])).shown["a"].text
