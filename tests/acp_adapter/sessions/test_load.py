"""Load and resume: what is shown again, also in the middle of a turn, and what a cancel of them leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.ids import Seq, SessionId
from engine.log.events.going_back import FileLeft, RewindBegun
from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import (
    last_value,
    reason,
    runs,
    says,
    scripted,
    transcript,
    update_in,
)

pytestmark = pytest.mark.anyio


async def eventful(agent: Client, folder: Path) -> str:
    """A session in which nearly everything happens that can be shown; seven prompts reach its log."""
    notes = folder / "notes.md"
    notes.write_text("# Notes\nfirst\n")
    session = await agent.open(folder)
    assert await agent.prompt(session, "look") == "end_turn"
    notes.write_text("# Notes\nsecond\n")
    await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
    assert await agent.prompt(session, "fail") == "end_turn"
    params = {"sessionId": session, "configId": "_while_running", "value": "steer"}
    await agent.call("session/set_config_option", params)
    assert await agent.prompt(session, "/views") == "end_turn"
    streaming = await agent.begin_prompt(session, "stream")
    await agent.until(says("a"))
    await agent.notify("session/cancel", {"sessionId": session})
    assert reason(await agent.response(streaming)) == "cancelled"
    running = await agent.begin_prompt(session, "run for ever")
    await agent.until(runs)
    await agent.notify("session/cancel", {"sessionId": session})
    assert reason(await agent.response(running)) == "cancelled"
    await agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
    agent.permission = "reject_once"
    assert await agent.prompt(session, "reject") == "end_turn"
    agent.permission = "allow_once"
    assert await agent.prompt(session, "`````markdown\n\ud83d\ude00 \\u0000 \t") == "end_turn"
    return session


EVENTFUL = (
    {"reasoning": "I shall look.", "text": "Looking.", "statement": "n = view('notes.md')\nn.Run()\nread('notes.md')"},
    {"text": "Seen."},
    {"statement": "print('out', flush=True)\nimport sys; print('err', file=sys.stderr)\nx = 40\n1 / 0"},
    {"reasoning": "Failed.", "text": "It failed."},
    {"text": "abcdefghij" * 50, "chunk": 1, "pause": 0.01},
    {"text": "Going.", "statement": "print('going', flush=True)\nwhile True: pass"},
    {"text": "May I?", "statement": "y = 1"},
    {"text": "Then not."},
    {"text": "````fenced````", "statement": "print('`````')\n'\\ud800'"},
    {"text": "Done."},
)


async def test_what_a_load_shows_is_what_was_shown_at_first(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *EVENTFUL)) as first:
        session = await eventful(first, tmp_path)
        shown = transcript(first.updates())
        prompts = [event["text"] for event in logged(store, session) if event["kind"] == "user_message"]
    assert len(prompts) == 7
    async with in_memory(tmp_path, store=store) as second:
        await second.initialize()
        answer = await second.load(session, tmp_path)
        again = transcript(second.updates())
        assert {message["params"]["sessionId"] for message in second.received if "params" in message} == {session}
        del shown["last"]["available_commands_update"]
        assert again == shown
        assert len(shown["calls"]) >= 6
        assert [update["content"]["text"] for update in second.updates("user_message_chunk")] == prompts
        values = {option["id"]: option["currentValue"] for option in answer["configOptions"]}
        assert (answer["modes"]["currentModeId"], values) == (
            "ask",
            {"mode": "ask", "_while_running": "steer", "_ask_about": "by_sandbox", "_network": "off"},
        )
        following = await second.until(lambda message: True)
        assert update_in(following)["sessionUpdate"] == "available_commands_update"
        await second.quiet()


async def test_a_second_load_on_the_same_connection_shows_the_same_again(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *EVENTFUL)) as agent:
        session = await eventful(agent, tmp_path)
        shown = transcript(agent.updates())
        del shown["last"]["available_commands_update"]
        before = len(agent.updates())
        await agent.load(session, tmp_path)
        assert transcript(agent.updates()[before:]) == shown
        await agent.quiet()


async def test_a_load_while_a_statement_runs_shows_everything_once(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "kept = 1")
    prompt = await agent.begin_prompt(session, f"{gate.source}; kept + 1")
    await gate.reached()
    before = len(agent.updates())
    await agent.load(session, tmp_path)
    gate.release()
    assert reason(await agent.response(prompt)) == "end_turn"
    shown = transcript(agent.updates()[before:])
    assert [call["status"] for call in shown["calls"].values()] == ["completed", "completed"]
    assert [text for text in shown["messages"].values() if text == "2"] == ["2"]


@pytest.mark.slow
async def test_a_load_while_a_message_streams_shows_it_once_and_whole(store: MemoryStore, tmp_path: Path) -> None:
    replies = [{"reasoning": "r" * 20, "text": "abcdefghij" * 4, "chunk": 1, "pause": 0.004}] * 3
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *replies)) as agent:
        session = await agent.open(tmp_path)
        for wanted in (says("r", "agent_thought_chunk"), says("b"), says("j")):
            prompt = await agent.begin_prompt(session, "go")
            await agent.until(wanted)
            params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            answers = await agent.responses([prompt, loading := await agent.begin("session/load", params)])
            assert reason(answers[prompt]) == "end_turn"
            assert answers[loading]["result"]["modes"]
            updates = agent.updates()
            # What comes from the first message of the user on is the replay and what follows it.
            begun = [update["sessionUpdate"] for update in updates].index("user_message_chunk")
            again = transcript(updates[begun:])["messages"]
            assert set(again.values()) == {"r" * 20, "abcdefghij" * 4}
            agent.received.clear()
            await agent.load(session, tmp_path)
            assert transcript(agent.updates())["messages"] == again
            agent.received.clear()


async def test_a_load_while_a_statement_prints_shows_what_it_printed(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    prompt = await agent.begin_prompt(session, f"print('printed', flush=True); {gate.source}; 42")
    await agent.until(says("printed", "tool_call_update"))
    await gate.reached()
    before = len(agent.updates())
    await agent.load(session, tmp_path)
    (call,) = transcript(agent.updates()[before:])["calls"].values()
    assert (call["status"], "printed" in str(call["content"])) == ("in_progress", True)
    gate.release()
    assert reason(await agent.response(prompt)) == "end_turn"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_does_not_exist_cannot_be_loaded(agent: Client, tmp_path: Path, method: str) -> None:
    await agent.initialize()
    for unknown in ("ses_unknown", "", "../../etc/passwd", "ses_\u0000"):
        error = await agent.error(method, {"sessionId": unknown, "cwd": str(tmp_path), "mcpServers": []})
        assert (error["code"], error["data"]) == (-32002, {"sessionId": unknown})


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_two_loads_in_one_write_open_it_once(store: MemoryStore, tmp_path: Path, method: str) -> None:
    async with in_memory(tmp_path, store=store) as first:
        session = await first.open(tmp_path)
        await first.prompt(session, "x = 41")
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.write(agent.line(method, params, "a") + agent.line(method, params, "b"))
        answers = await agent.responses(["a", "b"])
        assert all("result" in answer for answer in answers.values()), answers
        assert await agent.prompt(session, "x + 1") == "end_turn"
        assert last_value(agent) == "42"


async def test_a_resume_shows_that_it_finished_a_rewind_that_was_cut_off(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store) as first:
        session = SessionId(await first.open(tmp_path))
        await first.prompt(session, "x = 1")
    left = FileLeft(path=str(tmp_path / "a.txt"), reason="it has changed since the session last wrote it")
    store.acquire(session, lambda seq, error: None)
    seq = Seq(len(logged(store, session)))
    store.submit(session, RewindBegun(seq=seq, statement=1, since=Seq(0), left=(left,)))
    store.release(session)
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.load(session, tmp_path, "session/resume")
        assert await agent.prompt(session, "x") == "end_turn"
        (call,) = [call for call in agent.updates("tool_call") if call["title"] == "Put files back"]
        assert "a.txt is left as it is: it has changed since the session last wrote it." in str(call["content"])
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.load(session, tmp_path, "session/resume")
        await agent.prompt(session, "x")
        assert "Put files back" not in str(agent.updates("tool_call"))
