"""Directories of sessions: checked, normalized, and changed by a load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import last_value

pytestmark = pytest.mark.anyio
EITHER = pytest.mark.parametrize("method", ["session/load", "session/resume"])


def where(session: str, cwd: Path | str, *directories: Path | str) -> dict[str, Any]:
    return {
        "sessionId": session,
        "cwd": str(cwd),
        "mcpServers": [],
        "additionalDirectories": [str(each) for each in directories],
    }


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories with a file of one name."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "where.txt").write_text(name)
    return tmp_path / "one", tmp_path / "two"


async def begun(store: MemoryStore, tmp_path: Path, cwd: Path) -> str:
    """A session that was prompted once, in a process that has ended."""
    async with in_memory(tmp_path, store=store) as agent:
        session = await agent.open(cwd)
        await agent.prompt(session, "x = 40")
        return session


def moves(store: MemoryStore, session: str) -> list[dict[str, Any]]:
    return [event for event in logged(store, session) if event["kind"] == "session_moved"]


@EITHER
async def test_load_in_another_directory_keeps_variables(
    store: MemoryStore, tmp_path: Path, two: tuple[Path, Path], method: str
) -> None:
    session = await begun(store, tmp_path, two[0])
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.call(method, where(session, two[1]))
        await agent.prompt(session, "x + 2, view('where.txt').path")
        assert last_value(agent) == f"(42, '{two[1]}/where.txt')"
        assert f"This session was in {two[0]} and continues in {two[1]}." in agent.text()
        (row,) = (await agent.call("session/list", {"cwd": str(two[1])}))["sessions"]
        assert (row["sessionId"], row["cwd"]) == (session, str(two[1]))
        assert await agent.call("session/list", {"cwd": str(two[0])}) == {"sessions": []}
    (moved,) = moves(store, session)
    assert moved["cwd"] == str(two[1])
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.call(method, where(session, f"{two[1]}/"))
    assert len(moves(store, session)) == 1


@EITHER
async def test_missing_directory_is_named_and_can_be_replaced(
    store: MemoryStore, tmp_path: Path, two: tuple[Path, Path], method: str
) -> None:
    session = await begun(store, tmp_path, two[0])
    (two[0] / "where.txt").unlink()
    two[0].rmdir()
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        error = await agent.error(method, where(session, two[0]))
        assert error["code"] == -32602
        assert error["message"] == f"cwd '{two[0]}' does not exist; load the session with another cwd"
        error = await agent.error(method, where(session, two[1] / "where.txt"))
        assert error["message"] == f"cwd '{two[1]}/where.txt' is not a directory; choose one that exists"
        assert moves(store, session) == []
        await agent.call(method, where(session, two[1]))
        await agent.prompt(session, "x + 2")
        assert last_value(agent) == "42"


async def test_missing_additional_directory_is_a_warning(
    store: MemoryStore, tmp_path: Path, two: tuple[Path, Path]
) -> None:
    params = {key: value for key, value in where("", two[0], two[1], tmp_path / "no").items() if key != "sessionId"}
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        session = (await agent.call("session/new", params))["sessionId"]
        await agent.prompt(session, "1")
        assert agent.text().count(f"The additional directory {tmp_path}/no does not exist.") == 1
        await agent.prompt(session, "2")
        assert agent.text().count("does not exist") == 1
        (row,) = (await agent.call("session/list", {}))["sessions"]
        assert row["additionalDirectories"] == [str(two[1]), f"{tmp_path}/no"]
        relative = {**params, "additionalDirectories": ["no"]}
        assert (await agent.error("session/new", relative))["code"] == -32602
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.call("session/resume", where(session, two[0], tmp_path / "gone", two[1], f"{two[1]}/", two[0]))
        await agent.prompt(session, "3")
        assert f"The additional directory {tmp_path}/gone does not exist." in agent.text()
    (moved,) = moves(store, session)
    assert (moved["cwd"], moved["directories"]) == (str(two[0]), [f"{tmp_path}/gone", str(two[1])])


@EITHER
async def test_only_an_idle_session_moves(
    agent: Client, store: MemoryStore, two: tuple[Path, Path], gate: Any, method: str
) -> None:
    session = await agent.open(two[0])
    await agent.prompt(session, "x = 40")
    assert (await agent.error(method, where(session, "/no/such/place")))["code"] == -32602
    await agent.call(method, where(session, f"{two[0]}/."))
    assert moves(store, session) == []
    await agent.call(method, where(session, two[1]))
    await agent.prompt(session, "x + 2, view('where.txt').path")
    assert last_value(agent) == f"(42, '{two[1]}/where.txt')"
    running = await agent.begin_prompt(session, gate.source)
    await gate.reached()
    error = await agent.error(method, where(session, two[0]))
    assert (error["code"], error["message"]) == (
        -32600,
        f"session {session} is busy in {two[1]}; cancel its prompt or wait, then load it elsewhere",
    )
    gate.release()
    assert (await agent.response(running))["result"] == {"stopReason": "end_turn"}


async def test_spellings_of_a_directory_are_equal(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    await agent.initialize()
    params = {"cwd": f"{tmp_path}//proj/./", "mcpServers": []}
    session = (await agent.call("session/new", params))["sessionId"]
    await agent.prompt(session, "1")
    for spelling in (f"{tmp_path}/proj", f"{tmp_path}/proj/", f"//{tmp_path}/proj//", f"{tmp_path}/x/../proj"):
        rows = (await agent.call("session/list", {"cwd": spelling}))["sessions"]
        assert [row["sessionId"] for row in rows] == [session], spelling
        assert rows[0]["cwd"] == f"{tmp_path}/proj"


async def test_symlinked_directory_lists_the_same_sessions(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "proj")
    await agent.initialize()
    sessions = [await agent.new_session(tmp_path / name) for name in ("proj", "link")]
    for session in sessions:
        await agent.prompt(session, "1")
    for name in ("proj", "link"):
        rows = (await agent.call("session/list", {"cwd": str(tmp_path / name)}))["sessions"]
        assert {row["sessionId"] for row in rows} == set(sessions)
    assert (await agent.call("session/list", {"cwd": str(tmp_path / "no")}))["sessions"] == []


async def test_unprompted_session_is_loadable_but_not_listed(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "/help")
    assert await agent.call("session/list", {}) == {"sessions": []}
    await agent.call("session/close", {"sessionId": session})
    await agent.load(session, tmp_path)
    await agent.prompt(session, "1")
    (row,) = (await agent.call("session/list", {}))["sessions"]
    assert row["sessionId"] == session
