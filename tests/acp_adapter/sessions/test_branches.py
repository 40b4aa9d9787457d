"""What an editor is shown of branches: a mark where the head moved, and on a load the active branch alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.memory import in_memory
from tests.support.scripts import last_value

pytestmark = pytest.mark.anyio


async def test_a_move_is_marked_and_a_load_shows_the_active_branch_alone(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store) as agent:
        session = await agent.open(tmp_path)
        await agent.prompt(session, "x = 1")
        await agent.prompt(session, "x = 'gone'")
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.prompt(session, "/rewind 1")
        (mark,) = [each for each in agent.updates("tool_call") if each["toolCallId"].startswith("moved_")]
        assert mark["title"] == "Branch b1, after statement 1"
        assert "no longer active" in mark["content"][0]["content"]["text"]
        await agent.prompt(session, "x")
        assert last_value(agent) == "1"
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        loaded = await agent.load(session, tmp_path)
        users = [update["content"]["text"] for update in agent.updates("user_message_chunk")]
        assert users == ["x = 1", "/rewind 1", "x"]
        assert not [each for each in agent.updates("tool_call") if each["toolCallId"].startswith("moved_")]
        assert "gone" not in str(agent.updates())
        assert loaded["modes"]["currentModeId"] == "auto"
        assert [update["currentModeId"] for update in agent.updates("current_mode_update")] == ["auto"]
        await agent.prompt(session, "/branch main")
        await agent.prompt(session, "x")
        assert last_value(agent) == "'gone'"
