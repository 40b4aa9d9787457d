"""Questions about statements: their text, and what each answer means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.log.permissions import ASKED_CHARS
from engine.log.store.memory import MemoryStore
from tests.support.memory import in_memory
from tests.support.scripts import (
    asks_permission,
    reason,
    scripted,
    transcript,
)
from tests.support.transcripts import selected

pytestmark = pytest.mark.anyio


def writer(tmp_path: Path, count: int) -> tuple[str, list[Path]]:
    """A model that writes one more file in each turn."""
    files = [tmp_path / f"written_{number}" for number in range(count)]
    replies = [
        reply
        for file in files
        for reply in ({"statement": f"import os; os.close(os.open({str(file)!r}, os.O_CREAT))"}, {"text": "Next."})
    ]
    return scripted(tmp_path, *replies), files


@pytest.mark.parametrize(
    ("option", "questions", "runs_it"),
    [("allow_once", 2, True), ("allow_always", 1, True), ("reject_once", 2, False), ("reject_always", 1, False)],
)
async def test_answers_last_once_or_for_the_session(
    store: MemoryStore, tmp_path: Path, option: str, questions: int, runs_it: bool
) -> None:
    model, files = writer(tmp_path, 2)
    async with in_memory(tmp_path, store=store, model=model, permission=option) as agent:
        session = await agent.open(tmp_path)
        for _ in files:
            assert await agent.prompt(session, "write") == "end_turn"
        assert sum(map(asks_permission, agent.received)) == questions
        assert [file.exists() for file in files] == [runs_it] * 2
        calls = transcript(agent.updates())["calls"].values()
        statuses = [call["status"] for call in calls if call["kind"] == "execute"]
        assert statuses == ["completed" if runs_it else "failed"] * 2
    for file in files:
        file.unlink(missing_ok=True)
    async with in_memory(tmp_path, store=store, model=model, permission=option) as again:
        await again.initialize()
        await again.load(session, tmp_path)
        assert await again.prompt(session, "write") == "end_turn"
        assert sum(map(asks_permission, again.received)) == questions - 1
        assert files[0].exists() is runs_it


async def test_question_offers_every_kind_of_answer(store: MemoryStore, tmp_path: Path) -> None:
    model, files = writer(tmp_path, 1)
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "write")
        question = (await agent.until(asks_permission))["params"]
        (announced,) = agent.updates("tool_call")
        assert question["toolCall"]["toolCallId"] == announced["toolCallId"]
        assert str(files[0]) in question["toolCall"]["rawInput"]["command"]
        kinds = [option["kind"] for option in question["options"]]
        assert sorted(kinds) == ["allow_always", "allow_once", "reject_always", "reject_once"]
        await agent.answer(agent.received[-1], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert reason(await agent.response(prompt)) == "end_turn"
        assert files[0].exists()


async def test_auto_mode_does_not_ask(store: MemoryStore, tmp_path: Path) -> None:
    model, files = writer(tmp_path, 2)
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        for file in files:
            assert await agent.prompt(session, "write") == "end_turn"
            assert file.exists()
        assert not any(map(asks_permission, agent.received))


async def test_dismissed_question_cancels_the_turn(store: MemoryStore, tmp_path: Path) -> None:
    model, files = writer(tmp_path, 2)
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "write")
        question = await agent.until(asks_permission)
        await agent.answer(question, {"outcome": {"outcome": "cancelled"}})
        assert reason(await agent.response(prompt)) == "cancelled"
        await agent.quiet()
        assert sum(map(asks_permission, agent.received)) == 1
        assert not files[0].exists()
        (call,) = transcript(agent.updates())["calls"].values()
        assert call["status"] == "failed"
        agent.permission = "allow_once"
        assert await agent.prompt(session, "write") == "end_turn"


async def test_dismissed_question_keeps_queued_prompts(store: MemoryStore, tmp_path: Path) -> None:
    model, _ = writer(tmp_path, 2)
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        first = await agent.begin_prompt(session, "write")
        question = await agent.until(asks_permission)
        second = await agent.begin_prompt(session, "write more")
        agent.permission = "allow_once"
        await agent.answer(question, {"outcome": {"outcome": "cancelled"}})
        responses = await agent.responses([first, second])
        assert [reason(responses[prompt]) for prompt in (first, second)] == ["cancelled", "end_turn"]


async def test_question_and_call_have_every_line(store: MemoryStore, tmp_path: Path) -> None:
    source = "import os  # tidy up\nimport shutil\nshutil.rmtree('/nowhere/at/all', ignore_errors=True)"
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "tidy up")
        question = await agent.until(asks_permission)
        (announced,) = agent.updates("tool_call")
        agent.permission = "reject_once"
        await agent.answer(question, selected("reject_once"))
        assert reason(await agent.response(prompt)) == "end_turn"
    for shown in (question["params"]["toolCall"], announced):
        assert shown["title"] == "import os  # tidy up … +2 lines"
        assert shown["content"][0]["content"]["text"] == f"```python\n{source}\n```"
        assert shown["rawInput"]["command"] == source


@pytest.mark.slow
async def test_too_long_statement_is_refused_without_question(store: MemoryStore, tmp_path: Path) -> None:
    target = tmp_path / "written"
    source = f"open({str(target)!r}, 'w').close()\n" + "x = 1\n" * (ASKED_CHARS // 6)
    model = scripted(tmp_path, {"statement": source}, {"text": "Then not."})
    async with in_memory(tmp_path, store=store, model=model, permission="allow_once") as agent:
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "write") == "end_turn"
        assert not any(map(asks_permission, agent.received))
        assert not target.exists()
        call = next(iter(transcript(agent.updates())["calls"].values()))
        assert call["status"] == "failed"
        assert f"it has {len(source):,} characters" in call["content"][-1]["content"]["text"]
        assert "at most 1,000,000" in call["content"][-1]["content"]["text"]


NO_APPROVALS: tuple[dict[str, Any], ...] = (
    {"result": {"outcome": {"outcome": "selected", "optionId": "allow_everything"}}},
    {"result": {"outcome": {"outcome": "selected"}}},
    {"result": {"outcome": {"outcome": "approved", "optionId": "allow_once"}}},
    {"result": {"outcome": "selected"}},
    {"result": {}},
    {"result": None},
    {"error": {"code": -32603, "message": "no user here"}},
    {"error": {"code": -32601, "message": "Method not found"}},
    {"error": "broken"},
)


@pytest.mark.slow
async def test_unclear_answers_are_rejections(store: MemoryStore, tmp_path: Path) -> None:
    model, files = writer(tmp_path, 2)
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        await agent.initialize()
        for answer in NO_APPROVALS:
            session = await agent.new_session(tmp_path)
            agent.permission = None
            prompt = await agent.begin_prompt(session, "write")
            question = await agent.until(asks_permission)
            await agent.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")
            assert reason(await agent.response(prompt)) == "end_turn"
            assert not files[0].exists(), answer
            agent.permission = "allow_once"
            assert await agent.prompt(session, "write") == "end_turn"
            assert files[1].exists()
            files[1].unlink()
            await agent.call("session/close", {"sessionId": session})
