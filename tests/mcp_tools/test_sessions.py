"""The session pool: sessions open once, rest when idle, and are closed to make room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.core.errors import EngineError
from mcp_tools import sessions
from mcp_tools.access import AccessError, Roots
from mcp_tools.client_session import ClientSession
from mcp_tools.replies import CallError
from mcp_tools.sessions import REST_SECONDS, TOO_MANY_SESSIONS, SessionPool
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio


class FakeSession:
    """The part of an engine session that the pool uses."""

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
    """The part of an engine that the pool uses; records what was opened and closed."""

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


class PoolHarness:
    """A pool over a fake engine, with a fixed clock."""

    def __init__(self) -> None:
        self.engine: Any = FakeSessions()
        self.root = Path("/")
        self.seconds = 0.0
        self.pool = SessionPool(self._engine, confined=True, now=lambda: self.seconds)

    async def _engine(self) -> Any:
        return self.engine

    async def open(self, key: str) -> ClientSession:
        async def roots() -> Roots:
            return Roots((str(self.root),))

        return await self.pool.open(key, key, roots, "a test")

    async def wait(self, seconds: float) -> None:
        self.seconds += seconds
        await self.pool.rest_idle()


def fake(session: ClientSession) -> FakeSession:
    session: Any = session.engine_session
    assert isinstance(session, FakeSession)
    return session


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> PoolHarness:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    return PoolHarness()


async def test_idle_session_rests_until_its_next_call(harness: PoolHarness) -> None:
    idle, used, busy = (
        fake(await harness.open("idle")),
        fake(await harness.open("used")),
        fake(await harness.open("busy")),
    )
    busy.is_busy = True
    await harness.wait(REST_SECONDS - 1)
    await harness.open("used")
    assert (idle.rests, used.rests, busy.rests) == (0, 0, 0)
    for _ in range(2):
        await harness.wait(2)
        assert (idle.rests, used.rests, busy.rests) == (1, 0, 0)
    assert [key for key, _ in harness.pool.awake()] == ["used", "busy"]
    assert await harness.pool.find("idle") is not None
    assert [key for key, _ in harness.pool.awake()] == ["idle", "used", "busy"]
    await harness.wait(REST_SECONDS + 1)
    assert (idle.rests, used.rests, busy.rests) == (2, 1, 0)


async def test_read_only_session_is_reopened(harness: PoolHarness) -> None:
    full = fake(await harness.open("full"))
    assert harness.engine.renewed == 0
    full.is_read_only = True
    for _ in range(3):
        assert fake(await harness.open("full")) is full
    assert harness.engine.renewed == 1
    harness.engine.takes_changes = True
    harness.seconds += 1.9
    assert fake(await harness.open("full")) is full
    harness.seconds += 0.1
    again = fake(await harness.open("full"))
    assert again is not full
    assert fake(await harness.open("full")) is again
    assert harness.engine.renewed == 2


async def test_failed_rest_stops_nothing(harness: PoolHarness) -> None:
    broken, other = fake(await harness.open("broken")), fake(await harness.open("other"))
    broken.failure = EngineError("no")
    await harness.wait(REST_SECONDS + 1)
    assert (broken.rests, other.rests) == (1, 1)


async def test_longest_resting_session_is_evicted(harness: PoolHarness) -> None:
    for key in ("a", "b", "c"):
        await harness.open(key)
        harness.seconds += 1
    await harness.open("a")
    with pytest.raises(CallError, match=TOO_MANY_SESSIONS.format(limit=3)):
        await harness.open("d")
    await harness.wait(REST_SECONDS + 1)
    await harness.open("b")
    await harness.open("d")
    assert harness.engine.closed == ["c"]
    await harness.open("c")
    assert harness.engine.closed == ["c", "a"]
    assert harness.engine.opened == ["a", "b", "c", "d", "c"]
    with pytest.raises(CallError, match=TOO_MANY_SESSIONS.format(limit=3)):
        await harness.open("a")


async def test_concurrent_calls_open_a_session_once(harness: PoolHarness) -> None:
    answered = anyio.Event()

    async def slow() -> Roots:
        await answered.wait()
        return Roots(("/",))

    async def none() -> Roots:
        raise AccessError("/ is too wide")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(harness.pool.open, "slow", "slow", slow, "a test")
        await anyio.wait_all_tasks_blocked()
        found: list[ClientSession] = []

        async def opened() -> None:
            found.append(await harness.open("a"))

        async with anyio.create_task_group() as others:
            for _ in range(5):
                others.start_soon(opened)
        answered.set()
        assert len({id(each) for each in found}) == 1
        with pytest.raises(CallError, match="Cannot open a session: / is too wide"):
            await harness.pool.open("wide", None, none, "a test")
    assert harness.engine.opened == ["a", "slow"]


async def test_call_waits_while_session_is_put_to_rest(harness: PoolHarness) -> None:
    session = fake(await harness.open("a"))
    session.ending = anyio.Event()
    order: list[str] = []

    async def rest() -> None:
        await harness.wait(REST_SECONDS + 1)
        order.append("rested")

    async def call() -> None:
        await harness.open("a")
        order.append("called")

    async with anyio.create_task_group() as tasks:
        for each in (rest, call):
            tasks.start_soon(each)
            await anyio.wait_all_tasks_blocked()
        assert order == []
        session.ending.set()
    assert sorted(order) == ["called", "rested"]
    assert [key for key, _ in harness.pool.awake()] == ["a"]


async def test_evicted_session_reopens_with_its_handles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    harness = PoolHarness()
    async with sessions_of(tmp_path) as engine:
        harness.engine, harness.root = engine, tmp_path
        first = await harness.open("first")
        await first.run_checked("a = view('a.txt')")
        await harness.wait(REST_SECONDS + 1)
        await (await harness.open("second")).run_checked("b = view('a.txt')")
        with pytest.raises(CallError, match=TOO_MANY_SESSIONS.format(limit=1)):
            await harness.open("first")
        await harness.wait(REST_SECONDS + 1)
        again = await harness.open("first")
        assert again.engine_session is not first.engine_session
        assert again.handles.names() == ["a"]
        assert "two" in (await again.look(["a"])).shown["a"].text
