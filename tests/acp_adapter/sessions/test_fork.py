"""`session/fork`: a session of its own that goes on from another one, open or not, and that shows nothing again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.memory import in_memory
from tests.support.scripts import last_value

pytestmark = pytest.mark.anyio


async def test_a_fork_goes_on_from_where_the_session_was_and_leaves_it_alone(
    store: MemoryStore, tmp_path: Path
) -> None:
    where = {"cwd": str(tmp_path)}
    async with in_memory(tmp_path, store=store) as agent:
        answer = await agent.initialize()
        assert answer["agentCapabilities"]["sessionCapabilities"]["fork"] == {}
        session = await agent.new_session(tmp_path)
        for text in ("x = 1", "x = 2", "/rewind 1"):
            await agent.prompt(session, text)
        shown = len(agent.updates())
        fork = await agent.call("session/fork", {"sessionId": session, **where})
        assert fork["sessionId"] != session
        assert fork["modes"]["currentModeId"] == "ask"
        assert {update["sessionUpdate"] for update in agent.updates()[shown:]} <= {"available_commands_update"}
        await agent.prompt(fork["sessionId"], "x += 10; x")
        assert last_value(agent) == "11"
        await agent.prompt(session, "x")
        assert last_value(agent) == "1"
        listed = (await agent.call("session/list", {}))["sessions"]
        assert sorted(row["sessionId"] for row in listed) == sorted((session, fork["sessionId"]))
        assert {row["title"] for row in listed} == {"x = 1"}
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        again = await agent.call("session/fork", {"sessionId": fork["sessionId"], **where})
        await agent.prompt(again["sessionId"], "x")
        assert last_value(agent) == "11"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"sessionId": "ses_none", "cwd": "/"}, -32002),
        ({"sessionId": "ses_none", "cwd": "relative"}, -32602),
        ({"cwd": "/"}, -32602),
    ],
)
async def test_what_cannot_be_forked_is_refused(
    store: MemoryStore, tmp_path: Path, params: dict[str, str], code: int
) -> None:
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        error = await agent.error("session/fork", params)
        assert error["code"] == code
        assert (await agent.call("session/list", {}))["sessions"] == []
