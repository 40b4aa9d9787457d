"""`$/cancel_request` of opening and closing: no session stays half open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.memory import Client, in_memory
from tests.support.scripts import (
    last_value,
    prompt_params,
    reason,
    runs,
    update_in,
)

pytestmark = pytest.mark.anyio


CANCELLED = -32800


LONG = "pass  # " + "x" * 400_000
"""A statement whose replay is larger than all buffers to a client that does not read."""


@pytest.fixture
async def agent(tmp_path: Path, store: MemoryStore) -> AsyncIterator[Client]:
    """An agent that waits as soon as its client does not read."""
    async with in_memory(tmp_path, store=store, capacity=1) as client:
        yield client


@pytest.fixture
async def long_session(store: MemoryStore, tmp_path: Path) -> str:
    """A session whose load lasts until its client reads."""
    async with in_memory(tmp_path, store=store) as first:
        session = await first.open(tmp_path)
        await first.prompt(session, "x = 41")
        for _ in range(2):
            await first.prompt(session, LONG)
        return session


def where(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


async def begin_load(agent: Client, session: str, cwd: Path) -> None:
    """Bring the agent to the middle of a replay."""
    await agent.initialize()
    await agent.write(agent.line("session/load", where(session, cwd), "load"))
    await agent.until(lambda message: update_in(message).get("sessionUpdate") == "user_message_chunk")


async def assert_works(agent: Client, session: str) -> None:
    assert await agent.prompt(session, "x + 1") == "end_turn"
    assert last_value(agent) == "42"


async def test_cancelled_load_leaves_the_session_closed(long_session: str, agent: Client, tmp_path: Path) -> None:
    await begin_load(agent, long_session, tmp_path)
    await agent.notify("$/cancel_request", {"requestId": "load"})
    assert (await agent.response("load"))["error"]["code"] == CANCELLED
    assert (await agent.error("session/prompt", prompt_params(long_session, "x")))["code"] == -32002
    await agent.quiet()
    await agent.load(long_session, tmp_path)
    await assert_works(agent, long_session)


async def test_prompt_before_a_cancelled_load_is_answered(long_session: str, agent: Client, tmp_path: Path) -> None:
    await begin_load(agent, long_session, tmp_path)
    await agent.write(
        agent.line("session/prompt", prompt_params(long_session, "x"), "prompt")
        + agent.line("$/cancel_request", {"requestId": "load"})
    )
    answers = await agent.responses(["load", "prompt"])
    assert answers["load"]["error"]["code"] == CANCELLED
    assert reason(answers["prompt"]) in ("cancelled", "end_turn")
    await agent.load(long_session, tmp_path, "session/resume")
    await assert_works(agent, long_session)


async def test_prompt_during_a_load_is_shown_after_the_history(
    long_session: str, agent: Client, tmp_path: Path
) -> None:
    await begin_load(agent, long_session, tmp_path)
    await agent.write(agent.line("session/prompt", prompt_params(long_session, "x + 1"), "prompt"))
    answers = await agent.responses(["load", "prompt"])
    assert list(answers) == ["load", "prompt"]
    assert reason(answers["prompt"]) == "end_turn"
    calls = [call["rawInput"]["command"] for call in agent.updates("tool_call") if call["kind"] == "execute"]
    assert calls == ["x = 41", LONG, LONG, "x + 1"]
    assert last_value(agent) == "42"


async def test_a_close_cannot_be_cancelled_half_way(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "x = 41")
    prompt = await agent.begin_prompt(session, "while True: pass")
    await agent.until(runs)
    await agent.write(
        agent.line("session/close", {"sessionId": session}, "close")
        + agent.line("$/cancel_request", {"requestId": "close"})
    )
    answers = await agent.responses([prompt, "close"])
    assert reason(answers[prompt]) == "cancelled"
    assert answers["close"].get("result") == {} or answers["close"]["error"]["code"] == CANCELLED
    await agent.load(session, tmp_path)
    await assert_works(agent, session)


async def test_cancelled_opening_can_be_repeated(agent: Client, tmp_path: Path) -> None:
    await agent.initialize()
    params = {"cwd": str(tmp_path), "mcpServers": []}
    await agent.write(agent.line("session/new", params, "new") + agent.line("$/cancel_request", {"requestId": "new"}))
    answer = await agent.response("new")
    assert "result" in answer or answer["error"]["code"] == CANCELLED
    for row in (await agent.call("session/list", {}))["sessions"]:
        await agent.load(row["sessionId"], tmp_path, "session/resume")
        assert await agent.prompt(row["sessionId"], "6 * 7") == "end_turn"
    assert await agent.prompt(await agent.new_session(tmp_path), "6 * 7") == "end_turn"
