"""Load, resume and fork: what is shown again, even during a turn, and what stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acp_adapter.updates.files import RESTORED
from engine.core.ids import Seq, SessionId
from engine.log.events.going_back import FileLeft, RewindBegun
from engine.log.store.memory import MemoryStore
from tests.support.full_store import FullStore
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
    """A session with nearly every kind of update; its log has seven prompts."""
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


async def test_load_shows_what_was_shown_live(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *EVENTFUL)) as first:
        session = await eventful(first, tmp_path)
        shown = transcript(first.updates())
        prompts = [event["text"] for event in logged(store, session) if event["kind"] == "user_message"]
    assert len(prompts) == 7
    async with in_memory(tmp_path, store=store, model=(model := scripted(tmp_path, *EVENTFUL))) as second:
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
            {"mode": "ask", "model": model, "_while_running": "steer", "_ask_about": "by_sandbox", "_network": "off"},
        )
        following = await second.until(lambda message: True)
        assert update_in(following)["sessionUpdate"] == "available_commands_update"
        await second.quiet()


async def test_second_load_shows_the_same(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, *EVENTFUL)) as agent:
        session = await eventful(agent, tmp_path)
        shown = transcript(agent.updates())
        del shown["last"]["available_commands_update"]
        before = len(agent.updates())
        await agent.load(session, tmp_path)
        assert transcript(agent.updates()[before:]) == shown
        await agent.quiet()


async def test_load_during_a_statement_shows_everything_once(agent: Client, tmp_path: Path, gate: Gate) -> None:
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
async def test_load_during_a_stream_shows_the_message_once(store: MemoryStore, tmp_path: Path) -> None:
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
            # The replay starts with the first user message.
            begun = [update["sessionUpdate"] for update in updates].index("user_message_chunk")
            again = transcript(updates[begun:])["messages"]
            assert set(again.values()) == {"r" * 20, "abcdefghij" * 4}
            agent.received.clear()
            await agent.load(session, tmp_path)
            assert transcript(agent.updates())["messages"] == again
            agent.received.clear()


async def test_load_during_output_shows_the_output(agent: Client, tmp_path: Path, gate: Gate) -> None:
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


async def test_resume_reports_an_interrupted_rewind(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store) as first:
        session = SessionId(await first.open(tmp_path))
        await first.prompt(session, "x = 1")
    left = FileLeft(path=str(tmp_path / "a.txt"), reason="the file has changed since the session last wrote it")
    store.acquire(session, lambda seq, error: None)
    seq = Seq(len(logged(store, session)))
    store.submit(session, RewindBegun(seq=seq, statement=1, since=Seq(0), left=(left,)))
    store.release(session)
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.load(session, tmp_path, "session/resume")
        assert await agent.prompt(session, "x") == "end_turn"
        (call,) = [call for call in agent.updates("tool_call") if call["title"].startswith(RESTORED)]
        assert "a.txt was not restored: the file has changed since the session last wrote it." in str(call["content"])
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        await agent.load(session, tmp_path, "session/resume")
        await agent.prompt(session, "x")
        assert RESTORED not in str(agent.updates("tool_call"))


async def test_head_move_is_marked_and_load_shows_the_active_branch(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store) as agent:
        session = await agent.open(tmp_path)
        await agent.prompt(session, "x = 1")
        await agent.prompt(session, "x = 'gone'")
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.prompt(session, "/rewind 1")
        (mark,) = [each for each in agent.updates("tool_call") if each["toolCallId"].startswith("moved_")]
        assert mark["title"] == "Go to branch b1, after statement 1"
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


async def test_reloading_a_read_only_session_continues(tmp_path: Path) -> None:
    store: Any = FullStore()
    async with in_memory(tmp_path, store=store) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "a = 1")
        store.is_full = True
        for _ in range(2):
            said = await client.error(
                "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "b = 2"}]}
            )
            assert said["message"].endswith("is read-only: the disk is full; fix this, then open the session again")
        store.is_full = False
        await client.load(session, tmp_path)
        assert await client.prompt(session, "c = a") == "end_turn"


async def test_fork_continues_and_leaves_the_original(store: MemoryStore, tmp_path: Path) -> None:
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
async def test_invalid_fork_is_refused(store: MemoryStore, tmp_path: Path, params: dict[str, str], code: int) -> None:
    async with in_memory(tmp_path, store=store) as agent:
        await agent.initialize()
        error = await agent.error("session/fork", params)
        assert error["code"] == code
        assert (await agent.call("session/list", {}))["sessions"] == []
