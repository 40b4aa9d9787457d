"""Prompts during a turn: steers join it, follow-ups wait, too many are refused."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import (
    last_value,
    prompt_params,
    reason,
    says,
    scripted,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("by_option", [False, True])
async def test_steer_joins_the_run(store: MemoryStore, tmp_path: Path, gate: Gate, by_option: bool) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"text": "Steered."}, {"text": "Never asked for."})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await agent.open(tmp_path)
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        if by_option:
            params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
            await agent.call("session/set_config_option", params)
        prompt = await agent.begin_prompt(session, "go")
        await gate.reached()
        steer = await agent.begin("session/prompt", prompt_params(session, "left", None if by_option else "steer"))
        gate.release()
        answers = await agent.responses([prompt, steer])
        assert {reason(answer) for answer in answers.values()} == {"end_turn"}
        assert agent.text() == "Steered."
    messages = [event for event in logged(store, session) if event["kind"] == "user_message"]
    assert [message["text"] for message in messages] == ["go", "left"]
    assert messages[1]["prompt_kind"] == "steer"


async def test_steer_during_the_last_reply_calls_the_model_again(store: MemoryStore, tmp_path: Path) -> None:
    first = {"text": "abcdefghij" * 5, "chunk": 1, "pause": 0.01}
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, first, {"text": "Again."})) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "go")
        await agent.until(says("a"))
        steer = await agent.begin("session/prompt", prompt_params(session, "left", "steer"))
        answers = await agent.responses([prompt, steer])
        assert {reason(answer) for answer in answers.values()} == {"end_turn"}
        assert agent.text() == first["text"] + "Again."


async def test_a_cancel_answers_the_steers_too(store: MemoryStore, tmp_path: Path, gate: Gate) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"text": "Never."})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await agent.open(tmp_path)
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        prompt = await agent.begin_prompt(session, "go")
        await gate.reached()
        steer = await agent.begin("session/prompt", prompt_params(session, "left", "steer"))
        queued = await agent.begin("session/prompt", prompt_params(session, "later", "followUp"))
        await agent.notify("session/cancel", {"sessionId": session})
        answers = await agent.responses([prompt, steer, queued])
        assert {reason(answer) for answer in answers.values()} == {"cancelled"}
        await agent.quiet()
        assert agent.text() == ""


async def test_steer_without_a_run_is_a_prompt(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    assert await agent.call("session/prompt", prompt_params(session, "6 * 7", "steer")) == {"stopReason": "end_turn"}
    assert last_value(agent) == "42"
    assert (await agent.error("session/prompt", prompt_params(session, "1", "sideways")))["code"] == -32602


async def test_follow_ups_run_in_order(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    await agent.call("session/set_config_option", params)
    prompt = await agent.begin_prompt(session, f"n = []; {gate.source}")
    await gate.reached()
    later = [
        await agent.begin("session/prompt", prompt_params(session, f"n.append({number}); n", "followUp"))
        for number in range(5)
    ]
    gate.release()
    answers = await agent.responses([prompt, *later])
    assert list(answers) == [prompt, *later]
    assert last_value(agent) == "[0, 1, 2, 3, 4]"


@pytest.mark.slow
async def test_queue_limit_refuses_further_prompts(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    prompt = await agent.begin_prompt(session, f"n = 0; {gate.source}")
    await gate.reached()
    waiting = [await agent.begin_prompt(session, "n += 1; n") for _ in range(40)]
    await anyio.wait_all_tasks_blocked()
    gate.release()
    answers = await agent.responses([prompt, *waiting], 30)
    refused = [answer for answer in answers.values() if "error" in answer]
    assert {answer["error"]["code"] for answer in refused} == {-32600}
    assert last_value(agent) == str(40 - len(refused)) == "32"


async def test_two_prompts_at_once_are_served_in_turn(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    first = await agent.begin_prompt(session, "x = 1")
    second = await agent.begin_prompt(session, "x += 1; x")
    assert (await agent.response(first))["result"]["stopReason"] == "end_turn"
    assert (await agent.response(second))["result"]["stopReason"] == "end_turn"
    assert agent.text().endswith("2")
