"""Sessions without a usable model, and unknown commands."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engine.log.store.memory import MemoryStore
from engine.session.commands.table import COMMANDS
from tests.support.memory import Client, in_memory, logged

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("model", "name", "said"),
    [
        ("provider:openai:gpt-5", "Set OPENAI_API_KEY", "openai:gpt-5 needs a key: set OPENAI_API_KEY in the environ"),
        ("provider:gemini:pro", "Set GOOGLE_API_KEY or GEMINI_API_KEY", "gemini:pro needs a key: set GOOGLE_API_KEY"),
        ("provider:nosuch:x", "Set up nosuch", "nosuch:x must be set up as the documentation of nosuch"),
    ],
)
async def test_initialize_says_what_the_model_needs(tmp_path: Path, model: str, name: str, said: str) -> None:
    async with in_memory(tmp_path, environ={}, model=model) as agent:
        (method,) = (await agent.initialize())["authMethods"]
        assert (method["id"], method["name"]) == ("environment", name)
        assert method["description"].startswith(said)
        error = await agent.error("authenticate", {"methodId": "other"})
        assert (error["code"], error["message"]) == (-32602, "methodId: the only method is 'environment'")


async def test_authenticate_checks_the_key(tmp_path: Path) -> None:
    for environ, answer in (({}, None), ({"ANTHROPIC_API_KEY": ""}, None), ({"ANTHROPIC_API_KEY": "k" * 20}, {})):
        async with in_memory(tmp_path, environ=environ, model="provider:anthropic:m") as agent:
            await agent.initialize()
            if answer is None:
                error = await agent.error("authenticate", {"methodId": "environment"})
                assert error["code"] == -32000
                assert "set ANTHROPIC_API_KEY" in error["message"]
            else:
                assert await agent.call("authenticate", {"methodId": "environment"}) == answer


async def test_own_server_needs_no_key(tmp_path: Path) -> None:
    environ = {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    async with in_memory(tmp_path, environ=environ, model="provider:openai:llama") as agent:
        await agent.initialize()
        assert await agent.call("authenticate", {"methodId": "environment"}) == {}


async def test_no_setup_without_a_provider(agent: Client) -> None:
    assert (await agent.initialize())["authMethods"] == []


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nosuch", "unknown model 'nosuch'; use one of direct, scripted, provider; set REWINDOW_MODEL, and restart"),
        ("provider:openai", "model `provider` needs a provider and a model"),
        ("scripted:/no/such/file", "script /no/such/file cannot be read"),
    ],
)
async def test_unusable_model_only_fails_prompts(
    store: MemoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, model: str, said: str
) -> None:
    async with in_memory(tmp_path, store=store, model=model, must_have_model=False) as agent:
        (method,) = (await agent.initialize())["authMethods"]
        assert said in method["description"]
        session = await agent.new_session(tmp_path)
        for _ in range(2):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
            error = await agent.error("session/prompt", params)
            assert error["code"] == -32000
            assert said in error["message"]
        assert await agent.prompt(session, "/help") == "end_turn"
        assert "`/timeline [N | N.M | --tag NAME]`" in agent.text()
    kept = [event.get("text") or event.get("detail") for event in logged(store, session)]
    assert kept.count("hello") == 2
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def _none_near(name: str) -> str:
    *others, last = (f"`/{each}`" for each in COMMANDS)
    return f"There is no command `{name}`. The commands are {', '.join(others)} and {last}; `/help` describes them."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/veiws", "There is no command `/veiws`. Did you mean `/views`? `/help` lists all."),
        ("/Help", "There is no command `/Help`. Did you mean `/help`? `/help` lists all."),
        ("/clear everything\nnow", _none_near("/clear")),
    ],
)
async def test_unknown_command_is_named(
    store: MemoryStore, agent: Client, tmp_path: Path, text: str, answer: str
) -> None:
    session = await agent.open(tmp_path)
    assert await agent.prompt(session, text) == "end_turn"
    assert agent.text() == answer
    assert [event["aside"] for event in logged(store, session) if event["kind"] == "user_message"] == [True]
    assert agent.updates("tool_call") == []


@pytest.mark.parametrize("text", ["/", "/tmp", "/usr/bin/env fails", "//", "/2", "/a.b", "/" + "x" * 100, " / 2", "/ü"])
async def test_paths_and_divisions_are_not_commands(
    store: MemoryStore, agent: Client, tmp_path: Path, text: str
) -> None:
    session = await agent.open(tmp_path)
    assert await agent.prompt(session, text) == "end_turn"
    assert [event["aside"] for event in logged(store, session) if event["kind"] == "user_message"] == [False]
    assert "There is no command" not in agent.text()


async def test_unknown_command_is_answered_during_a_statement(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    running = await agent.begin_prompt(session, "while True: pass")
    assert await agent.prompt(session, "/veiws") == "end_turn"
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.response(running)
    assert "There is no command `/veiws`." in agent.text()
