"""While statements run again an editor shows which of how many it is, and can stop it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gates import Gate
from tests.support.memory import Client
from tests.support.scripts import last_value, update_in

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("command", ["/replay 1", "/replay 1 --live", "/edit 1\nx = 10", "/edit 1 --live\nx = 10"])
async def test_it_is_seen_which_statement_runs_again_and_a_cancel_goes_back_to_where_it_was(
    agent: Client, tmp_path: Path, gate: Gate, command: str
) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "x = 1")
    prompt = await agent.begin_prompt(session, gate.source)
    await gate.pass_one()
    await agent.response(prompt)
    await agent.prompt(session, "x = 3")
    before = len(agent.updates("tool_call"))
    again = await agent.begin_prompt(session, command)
    await agent.until(lambda message: update_in(message).get("title", "").endswith(" (2 of 3)"))
    await gate.reached()
    titles = [call["title"] for call in agent.updates("tool_call")[before:] if call["kind"] == "execute"]
    assert [title[-8:] for title in titles] == ["(1 of 3)", "(2 of 3)"]
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.cancelled(again)
    gate.release()
    after = await agent.begin_prompt(session, "x")
    await gate.pass_one()  # once more for the names
    await agent.response(after)
    assert last_value(agent) == "3"


@pytest.mark.slow
async def test_while_names_are_rebuilt_it_is_seen_which_statement_of_how_many_runs_again(
    agent: Client, tmp_path: Path, gate: Gate
) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "x = 1")
    prompt = await agent.begin_prompt(session, gate.source)
    await gate.pass_one()
    await agent.response(prompt)
    again = await agent.begin_prompt(session, "/replay 1")
    await gate.reached()
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.cancelled(again)
    gate.release()
    before = len(agent.updates("tool_call"))
    after = await agent.begin_prompt(session, "x")
    await agent.until(lambda message: update_in(message).get("title") == "Statement 2 again (2 of 2)")
    await gate.pass_one()
    await agent.response(after)
    (call,) = [call for call in agent.updates("tool_call")[before:] if call["title"].endswith(" (2 of 2)")]
    ends = [each for each in agent.updates("tool_call_update") if each["toolCallId"] == call["toolCallId"]]
    assert (call["status"], [each["status"] for each in ends]) == ("in_progress", ["completed"])
