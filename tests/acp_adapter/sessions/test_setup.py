"""Signing in, sessions without a usable model, and unknown commands."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

from acp_adapter.requests import SetupCommand
from acp_adapter.sign_in import IN_TERMINAL, SETUP, SIGN_IN, setup_command
from engine.core.key_file import StoredKeys, change_keys, key_path, read_keys
from engine.log.store.memory import MemoryStore
from engine.session.commands.table import COMMANDS
from tests.support.memory import Client, in_memory, logged
from tests.support.transcripts import Message

pytestmark = pytest.mark.anyio


KEY = "sk-of-a-file-0123456789"


@pytest.mark.parametrize("model", ["provider:openai:gpt-5", "direct", "nosuch"])
async def test_initialize_offers_ways_to_sign_in_that_the_client_knows(tmp_path: Path, model: str) -> None:
    async with in_memory(tmp_path, environ={}, model=model, must_have_model=False) as agent:
        reply = await agent.initialize()
        assert [(way["id"], way.get("type")) for way in reply["authMethods"]] == [(SIGN_IN, None)]
        assert reply["agentCapabilities"]["auth"] == {"logout": {}, "status": {}}
        both = (await agent.initialize(auth={"terminal": True}))["authMethods"]
        assert [(way["id"], way.get("type"), way.get("args")) for way in both] == [
            (IN_TERMINAL, "terminal", [SETUP]),
            (SIGN_IN, None, None),
        ]
        assert "_meta" not in both[0]
        (old, _) = (await agent.initialize(_meta={"terminal-auth": True}))["authMethods"]
        assert old.get("type") is None
        assert old["_meta"]["terminal-auth"]["args"][-1] == SETUP
        (zed, _) = (await agent.initialize(auth={"terminal": True}, _meta={"terminal-auth": True}))["authMethods"]
        assert (zed["type"], zed["_meta"]) == ("terminal", old["_meta"])


def test_setup_command_is_the_own_script_or_module(tmp_path: Path) -> None:
    script = tmp_path / "rewindow-acp"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    argv, environ = [str(script), "--model", "m"], {"XDG_CONFIG_HOME": "/c", "OPENAI_API_KEY": KEY}
    assert setup_command(argv, "/python", environ) == SetupCommand(
        (str(script), SETUP), (SETUP,), {"XDG_CONFIG_HOME": "/c"}
    )
    assert setup_command([str(script), "acp", "--model", "m"], "/python", {}).arguments == (str(script), "acp", SETUP)
    module = setup_command(["/lib/acp_adapter/__main__.py"], "/python", {})
    assert module.arguments == ("/python", "-P", "-m", "acp_adapter", SETUP)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("provider:openai:gpt-5", "openai:gpt-5 needs a key: run `rewindow auth add openai` in a terminal, or set OPE"),
        ("provider:gemini:pro", "gemini:pro needs a key: run `rewindow auth add google` in a terminal, or set GOOGLE_"),
        ("direct", "There is no provider key. Run `rewindow auth add PROVIDER` in a terminal, or set one of ANT"),
        ("nosuch", "unknown model 'nosuch'"),
    ],
)
async def test_authenticate_says_what_is_missing(tmp_path: Path, model: str, said: str) -> None:
    async with in_memory(tmp_path, environ={}, model=model, must_have_model=False) as agent:
        await agent.initialize(auth={"terminal": True})
        error = await agent.error("authenticate", {"methodId": SIGN_IN})
        assert (error["code"], error["message"].startswith(said)) == (-32000, True), error
        for method in (IN_TERMINAL, "other"):
            error = await agent.error("authenticate", {"methodId": method})
            assert (error["code"], error["message"]) == (-32602, f"methodId: must be '{SIGN_IN}'")
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "/help") == "end_turn"


async def test_older_client_may_authenticate_after_its_terminal(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "k" * 20}
    async with in_memory(tmp_path, environ=environ, model="provider:anthropic:m") as agent:
        await agent.initialize(_meta={"terminal-auth": True})
        assert await agent.call("authenticate", {"methodId": IN_TERMINAL}) == {}


async def test_authenticate_checks_the_key(tmp_path: Path) -> None:
    for environ, answer in (({}, None), ({"ANTHROPIC_API_KEY": ""}, None), ({"ANTHROPIC_API_KEY": "k" * 20}, {})):
        async with in_memory(tmp_path, environ=environ, model="provider:anthropic:m") as agent:
            await agent.initialize()
            if answer is None:
                error = await agent.error("authenticate", {"methodId": SIGN_IN})
                assert error["code"] == -32000
                assert "set ANTHROPIC_API_KEY" in error["message"]
            else:
                assert await agent.call("authenticate", {"methodId": SIGN_IN}) == answer


async def test_signing_in_and_out_changes_the_menu_and_the_status(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}

    async def status() -> Message:
        return await agent.call("auth/status", {})

    def offers(message: Message, *, is_offered: bool) -> bool:
        update = message.get("params", {}).get("update", {})
        return update.get("sessionUpdate") == "config_option_update" and ("claude" in str(update)) is is_offered

    async with in_memory(tmp_path, environ=home, model="provider:anthropic:m") as agent:
        await agent.open(tmp_path)
        assert await status() == {"state": "unauthenticated", "accounts": []}
        change_keys(home, lambda _: StoredKeys({"anthropic": KEY}))
        await agent.call("authenticate", {"methodId": SIGN_IN})
        await agent.seen(partial(offers, is_offered=True))
        assert await status() == {
            "state": "authenticated",
            "accounts": [{"label": "anthropic, from the file", "active": True}],
        }
        assert await agent.call("logout", None) == {}
        await agent.seen(partial(offers, is_offered=False))
        assert await status() == {"state": "unauthenticated", "accounts": []}
        assert read_keys(home) == StoredKeys()


async def test_signing_in_without_a_model_of_a_provider(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    async with in_memory(tmp_path, environ=home) as agent:
        session = await agent.open(tmp_path)
        change_keys(home, lambda _: StoredKeys({"openai": KEY}))
        assert await agent.call("authenticate", {"methodId": SIGN_IN}) == {}
        assert (await agent.call("auth/status", {}))["state"] == "not_required"
        assert await agent.prompt(session, f"print({KEY!r})") == "end_turn"
    assert KEY not in str(agent.received)


async def test_unreadable_keys_are_reported(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    key_path(home).parent.mkdir(parents=True)
    key_path(home).write_text("no json")
    async with in_memory(tmp_path, environ=home, model="provider:anthropic:m") as agent:
        await agent.initialize()
        error = await agent.error("authenticate", {"methodId": SIGN_IN})
        assert "needs a key" in error["message"]
        assert "repair or remove" in error["message"]


async def test_own_server_needs_no_key(tmp_path: Path) -> None:
    environ = {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    async with in_memory(tmp_path, environ=environ, model="provider:openai:llama") as agent:
        await agent.initialize()
        assert await agent.call("authenticate", {"methodId": SIGN_IN}) == {}


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
        await agent.initialize()
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
