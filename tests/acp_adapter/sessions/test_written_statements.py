"""A statement that a model writes in its text: what an editor is shown of it, live and after a load, and the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.context.tail.results import CLOSING, OPENING, REST_LEFT_OUT
from engine.context.view import View
from engine.log.store.memory import MemoryStore
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import asks_permission, scripted, transcript

pytestmark = pytest.mark.anyio

SOURCE = "print('out')\n6 * 7\n"
BLOCK = f"{OPENING}\n{SOURCE}{CLOSING}\n"
REPLIES = (
    {"reasoning": f"I shall write {BLOCK}", "text": f"Let me look.\n{BLOCK}", "chunk": 1},
    {"text": f"{BLOCK}The result is 41.\n{BLOCK}", "chunk": 3},
    {"text": f"Now a call. {BLOCK}", "statement": "'called'"},
    {"text": f"It is 42. In HTML: `{OPENING}`, or <script src='a.js'></script>\n```\n{BLOCK}```", "chunk": 2},
)


async def spoken(agent: Client, folder: Path) -> str:
    session = await agent.open(folder)
    assert await agent.prompt(session, "compute") == "end_turn"
    return session


async def test_the_block_is_the_call_and_only_what_stood_before_it_is_text(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *REPLIES)) as agent:
        session = await spoken(agent, tmp_path)
        live = transcript(agent.updates())
        texts = [text for kind, text in live["order"] if kind == "agent_message_chunk"]
        assert [live["messages"][text] for text in texts] == ["Let me look.\n", "Now a call. ", REPLIES[3]["text"]]
        (thought,) = [text for kind, text in live["order"] if kind == "agent_thought_chunk"]
        assert live["messages"][thought] == REPLIES[0]["reasoning"]
        calls = list(live["calls"].values())
        assert [call["status"] for call in calls] == ["completed"] * 3
        assert [call["rawInput"]["command"] for call in calls] == [SOURCE, SOURCE, "'called'"]
        assert [json.dumps(call["content"]).count(REST_LEFT_OUT) for call in calls] == [0, 1, 1]
        # Each was asked about once, with its source, like a call.
        questions = [message["params"]["toolCall"] for message in agent.received if asks_permission(message)]
        assert [each["toolCallId"] for each in questions] == list(live["calls"])
    events = logged(store, session)
    texts = [event["text"] for event in events if event["kind"] == "agent_text"]
    assert texts == ["Let me look.\n", "Now a call. ", REPLIES[3]["text"]]
    called = [event for event in events if event["kind"] == "tool_call"]
    assert [event["arguments"]["source"] for event in called] == [SOURCE, SOURCE, "'called'"]
    assert [event.get("rest_left_out", False) for event in called] == [False, True, True]
    assert len({event["tool_call_id"] for event in called}) == 3
    loaded = store.load(session)
    view = View.from_events(loaded)
    assert list(view.ready()) == list(view.events)
    async with in_memory(tmp_path, store=store) as second:
        await second.initialize()
        await second.load(session, tmp_path)
        again = transcript(second.updates())
        assert (again["calls"], again["messages"], again["order"]) == (live["calls"], live["messages"], live["order"])


@pytest.mark.parametrize("permission", ["reject_once", "allow_once"])
async def test_a_block_that_is_cut_by_length_runs_nothing_and_is_shown(tmp_path: Path, permission: str) -> None:
    text = f"Look.\n{OPENING}\nopen('x', 'w')"
    async with in_memory(tmp_path, model=scripted(tmp_path, {"text": text, "chunk": 4, "cause": "length"})) as agent:
        agent.permission = permission
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "go") == "max_tokens"
        assert agent.text() == text
        assert agent.updates("tool_call") == []


async def test_a_rejected_block_tells_the_model_as_a_rejected_call_does(tmp_path: Path) -> None:
    async with in_memory(
        tmp_path, model=scripted(tmp_path, {"text": f"{BLOCK}and more"}, {"text": "Then not."})
    ) as agent:
        agent.permission = "reject_once"
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "go") == "end_turn"
        (call,) = transcript(agent.updates())["calls"].values()
        assert call["status"] == "failed"
        assert [json.dumps(call["content"]).count(said) for said in (REST_LEFT_OUT, "rejected")] == [1, 1]
