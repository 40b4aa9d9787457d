"""Cancel at every moment: the turn ends as cancelled, nothing follows, the next prompt works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import (
    asks_permission,
    last_value,
    prompt_params,
    reason,
    runs,
    says,
    scripted,
)

pytestmark = pytest.mark.anyio


RUNAWAY = "while True:\n    pass"


TURNS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
"""Steps of the event loop from a prompt to its cancel: moments of a turn that no message marks."""


async def steps(count: int) -> None:
    """Let all other tasks take this many steps."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def cancel(session: str) -> dict[str, Any]:
    return {"sessionId": session}


async def assert_works(agent: Client, session: str, source: str = "6 * 7", value: str = "42") -> None:
    assert await agent.prompt(session, source) == "end_turn"
    assert last_value(agent) == value


async def test_first_prompt_and_cancel_in_one_write(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.write(
        agent.line("session/prompt", prompt_params(session, RUNAWAY), "p")
        + agent.line("session/cancel", cancel(session))
    )
    await agent.cancelled("p")
    await assert_works(agent, session)


async def test_cancel_at_any_moment_ends_a_runaway_statement(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "n = 0")
    for number, turns in enumerate(TURNS):
        prompt = await agent.begin_prompt(session, f"while True:\n    m = {number}")
        await steps(turns)
        await agent.notify("session/cancel", cancel(session))
        assert reason(await agent.response(prompt)) == "cancelled"
        await assert_works(agent, session, "n += 1; n", str(number + 1))
    await agent.quiet()


async def test_cancel_during_a_stream_keeps_what_was_sent(store: MemoryStore, tmp_path: Path) -> None:
    replies = [{"text": "abcdefghij" * 100, "chunk": 1, "pause": 0.001}] * 8
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *replies)) as agent:
        session = await agent.open(tmp_path)
        for pieces in range(len(replies)):
            prompt = await agent.begin_prompt(session, "go")
            for _ in range(pieces):
                await agent.until(says(""))
            await agent.notify("session/cancel", cancel(session))
            assert reason(await agent.response(prompt)) == "cancelled"
        await agent.quiet()
        sent = agent.text()
        assert sent
        texts = [event["text"] for event in logged(store, session) if event["kind"] == "agent_text"]
        assert "".join(texts) == sent
        await assert_answers(agent, session)


async def assert_answers(agent: Client, session: str) -> None:
    before = len(agent.text())
    assert await agent.prompt(session, "/help") == "end_turn"
    assert "/timeline" in agent.text()[before:]


@pytest.mark.parametrize("answered", ["cancelled first", "cancelled", "allowed late", "allowed after the end", "never"])
async def test_cancel_while_a_permission_is_pending(tmp_path: Path, answered: str) -> None:
    touched = tmp_path / "touched"
    model = scripted(tmp_path, {"statement": f"open({str(touched)!r}, 'w').close()"}, {"text": "fine"})
    async with in_memory(tmp_path, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "go")
        question = await agent.until(asks_permission)
        cancelled = {"outcome": {"outcome": "cancelled"}}
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        if answered == "cancelled first":
            await agent.notify("session/cancel", cancel(session))
            await agent.answer(question, cancelled)
        elif answered == "cancelled":
            await agent.notify("session/cancel", cancel(session))
            await agent.until(lambda message: message.get("method") == "$/cancel_request")
            await agent.answer(question, cancelled)
        else:
            await agent.notify("session/cancel", cancel(session))
            if answered == "allowed late":
                await agent.answer(question, allowed)
        await agent.cancelled(prompt)
        withdrawn = [message for message in agent.received if message.get("method") == "$/cancel_request"]
        assert [message["params"]["requestId"] for message in withdrawn] in ([], [question["id"]])
        if answered == "allowed after the end":
            await agent.answer(question, allowed)
        assert await agent.prompt(session, "again") == "end_turn"
        assert agent.text() == "fine"
        assert not touched.exists()


async def test_cancel_in_the_same_write_as_the_permission(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": RUNAWAY}, {"text": "fine"})
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "go")
        question = await agent.until(asks_permission)
        await agent.answer(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await agent.notify("session/cancel", cancel(session))
        await agent.cancelled(prompt)
        assert await agent.prompt(session, "again") == "end_turn"


async def with_slow_history(agent: Client, tmp_path: Path, gate: Gate) -> str:
    """A session whose second statement waits at the gate in each rebuild."""
    session = await agent.open(tmp_path)
    await agent.prompt(session, "kept = 41")
    prompt = await agent.begin_prompt(session, gate.source)
    await gate.pass_one()
    assert reason(await agent.response(prompt)) == "end_turn"
    return session


async def assert_rebuilt(agent: Client, session: str, gate: Gate) -> None:
    prompt = await agent.begin_prompt(session, "kept + 1")
    await gate.pass_one()
    assert reason(await agent.response(prompt)) == "end_turn"
    assert last_value(agent) == "42"


@pytest.mark.parametrize("text", ["kept + 1", "/context"])
async def test_cancel_while_a_loaded_session_is_rebuilt(
    store: MemoryStore, tmp_path: Path, gate: Gate, text: str
) -> None:
    async with in_memory(tmp_path, store=store) as first:
        session = await with_slow_history(first, tmp_path, gate)
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.load(session, tmp_path)
        await agent.until(says("help", "available_commands_update"))
        prompt = await agent.begin_prompt(session, text)
        await gate.reached()
        await agent.notify("session/cancel", cancel(session))
        await agent.cancelled(prompt)
        gate.release()
        await assert_rebuilt(agent, session, gate)


async def test_a_stale_cancel_never_hits_the_next_turn(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "n = 0")
    stale = agent.line("session/cancel", cancel(session))
    for number, turns in enumerate(TURNS):
        first = await agent.begin_prompt(session, "'short'")
        await steps(turns)
        await agent.write(stale + agent.line("session/prompt", prompt_params(session, "n += 1; n"), f"q{number}"))
        answers = await agent.responses([first, f"q{number}"])
        assert reason(answers[first]) in ("end_turn", "cancelled")
        assert reason(answers[f"q{number}"]) == "end_turn"
        assert last_value(agent) == str(number + 1)
    await agent.quiet()


async def test_cancel_of_idle_or_unknown_session_is_ignored(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await assert_works(agent, session)
    await agent.notify("session/cancel", cancel(session))
    await agent.notify("session/cancel", cancel("ses_unknown"))
    await agent.quiet()
    await assert_works(agent, session)


async def test_cancel_answers_queued_prompts(store: MemoryStore, agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    running = await agent.begin_prompt(session, gate.source)
    await gate.reached()
    waiting = [await agent.begin_prompt(session, f"ran_{number} = True") for number in range(6)]
    await agent.notify("session/cancel", cancel(session))
    await agent.cancelled(running, *waiting)
    await assert_works(agent, session, "[name for name in globals() if name.startswith('ran_')]", "[]")
    kinds = [event["kind"] for event in logged(store, session)]
    assert (kinds.count("prompt_queued"), kinds.count("prompt_withdrawn")) == (6, 6)


async def test_cancel_request_of_a_running_prompt_continues_the_queue(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    running = await agent.begin_prompt(session, RUNAWAY)
    await agent.until(runs)
    waiting = await agent.begin_prompt(session, "6 * 7")
    await agent.notify("$/cancel_request", {"requestId": running})
    answers = await agent.responses([running, waiting])
    assert [reason(answers[name]) for name in (running, waiting)] == ["cancelled", "end_turn"]
    assert last_value(agent) == "42"
    await agent.quiet()


async def test_cancel_request_withdraws_one_queued_prompt(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    running = await agent.begin_prompt(session, f"n = 1; {gate.source}")
    await gate.reached()
    second, third, fourth = [await agent.begin_prompt(session, f"n = (n, {number})") for number in (2, 3, 4)]
    await agent.notify("$/cancel_request", {"requestId": third})
    assert reason(await agent.response(third)) == "cancelled"
    gate.release()
    answers = await agent.responses([running, second, fourth])
    assert list(answers) == [running, second, fourth]
    assert {reason(answer) for answer in answers.values()} == {"end_turn"}
    await assert_works(agent, session, "n", "((1, 2), 4)")


async def test_cancel_request_with_unknown_id_is_ignored(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    done = await agent.begin_prompt(session, "1")
    assert reason(await agent.response(done)) == "end_turn"
    for request_id in (done, str(done), 999, None, [1], {"a": 1}):
        await agent.notify("$/cancel_request", {"requestId": request_id})
    await agent.quiet()
    await assert_works(agent, session)


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_load_while_closing(agent: Client, tmp_path: Path, method: str) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "kept = 41")
    for number in range(3):
        await agent.begin_prompt(session, RUNAWAY)
        await agent.until(runs)
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.write(
            agent.line("session/close", {"sessionId": session}, f"c{number}") + agent.line(method, params, f"l{number}")
        )
        answers = await agent.responses([f"c{number}", f"l{number}"])
        assert answers[f"c{number}"]["result"] == {}
        assert "result" in answers[f"l{number}"], answers
        await assert_works(agent, session, "kept + 1", "42")


async def test_close_answers_the_prompt_first(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "kept = 1")
    prompt = await agent.begin_prompt(session, RUNAWAY)
    await agent.until(runs)
    waiting = await agent.begin_prompt(session, "kept = 2")
    line = agent.line("session/close", {"sessionId": session}, "c1")
    await agent.write(line + agent.line("session/close", {"sessionId": session}, "c2"))
    answers = await agent.responses([prompt, waiting, "c1", "c2"])
    assert {reason(answers[name]) for name in (prompt, waiting)} == {"cancelled"}
    assert set(list(answers)[:2]) == {prompt, waiting}
    assert (answers["c1"]["result"], answers["c2"]["result"]) == ({}, {})
    await agent.quiet()
    await agent.load(session, tmp_path)
    await assert_works(agent, session, "kept", "1")
