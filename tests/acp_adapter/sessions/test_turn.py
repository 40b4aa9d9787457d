"""What an editor gets to see of a turn: statements, resources, stop reasons, failures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_adapter.handlers import METHODS
from acp_adapter.wire.model import WireModel
from acp_adapter.wire.v1 import updates
from engine import TOOLS
from engine.log.store.memory import MemoryStore
from tests.support.fake_editor import OFFERS, READ, WRITE, FakeEditor
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory
from tests.support.scripts import (
    scripted,
)

pytestmark = pytest.mark.anyio


async def test_every_method_and_every_kind_of_update_occurs_and_is_valid(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    model = scripted(
        tmp_path,
        {
            "reasoning": "I shall look.",
            "text": "Looking.",
            "statement": 'n = view("notes.md")\nn.Run()\nread("notes.md")\ngrep("N")\nwrite("a", "b")\nbash("true")\n'
            'edit("notes.md", "Unsaved", "Notes")',
        },
        {"text": "It holds a heading."},
    )
    async with in_memory(tmp_path, store=store, model=model) as agent:
        agent.editor = FakeEditor()
        agent.editor.hold(tmp_path / "notes.md", "# Unsaved\n")
        await agent.initialize(**OFFERS)
        session = await agent.new_session(tmp_path)
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
        option = {"sessionId": session, "configId": "_while_running", "value": "steer"}
        assert (await agent.call("session/set_config_option", option))["configOptions"][1]["currentValue"] == "steer"
        assert (await agent.error("authenticate", {"methodId": "none"}))["code"] == -32602
        assert await agent.prompt(session, "What is in notes.md?") == "end_turn"
        assert agent.text() == "Looking.It holds a heading."
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.notify("session/cancel", {"sessionId": session})
        assert await agent.call("session/close", {"sessionId": session}) == {}
        where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.call("session/load", where)
        await agent.call("session/resume", where)
        fork = (await agent.call("session/fork", where))["sessionId"]
        assert await agent.call("session/delete", {"sessionId": fork}) == {}
        assert [row["sessionId"] for row in (await agent.call("session/list", {}))["sessions"]] == [session]
        assert await agent.call("session/delete", {"sessionId": session}) == {}
        assert (await agent.call("session/list", {}))["sessions"] == []
        silent = {name for name, method in METHODS.items() if method.is_notification}
        assert set(agent.coverage.answered) == set(METHODS) - silent - {"authenticate"}
        assert set(agent.coverage.updates) == update_kinds()
        assert set(agent.coverage.calls) == {tool.kind for tool in TOOLS.values()}
        assert set(agent.coverage.contents) == {"content", "diff", "location"}
        assert set(agent.coverage.sent) == {"session/update", "session/request_permission", READ, WRITE}


def update_kinds() -> set[str]:
    """Every kind of update that the adapter's code can make."""
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{updates.__name__}.")]
    made = [value for module in modules for value in vars(module).values()]
    fields = [
        cls.model_fields["session_update"].default
        for cls in made
        if isinstance(cls, type) and issubclass(cls, WireModel) and "session_update" in cls.model_fields
    ]
    return set(fields)


async def test_what_is_advertised_is_served(agent: Client) -> None:
    capabilities = (await agent.initialize())["agentCapabilities"]
    assert capabilities["loadSession"] is True
    advertised = {f"session/{name}" for name in capabilities["sessionCapabilities"]} - {"session/additionalDirectories"}
    assert advertised == {"session/list", "session/delete", "session/resume", "session/close", "session/fork"}
    for method in advertised | {"session/load", "session/set_mode", "session/set_config_option"}:
        assert (await agent.error(method, {"sessionId": 7, "cwd": "relative"}))["code"] == -32602


async def test_a_statement_is_one_tool_call_with_source_output_and_locations(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    session = await agent.open(tmp_path)
    await agent.prompt(session, 'a = view("a.txt", pos="2", tokens=100)\nprint("printed")\n6 * 7')
    (call,) = agent.updates("tool_call")
    assert (call["kind"], call["status"], call["name"]) == ("execute", "pending", "python")
    assert call["rawInput"] == {
        "command": 'a = view("a.txt", pos="2", tokens=100)\nprint("printed")\n6 * 7',
        "statement": 1,
    }
    patches = [update for update in agent.updates("tool_call_update") if update["toolCallId"] == call["toolCallId"]]
    assert patches[0]["status"] == "in_progress"
    assert patches[-1]["status"] == "completed"
    assert patches[-1]["content"][0]["content"]["text"] == "```\nprinted\n```"
    assert agent.text().startswith("```\n[a.txt:2]\n") or agent.text().startswith("```\n[a.txt]\n")
    assert agent.text().index("two") < agent.text().index("42")
    assert patches[-1]["locations"][0]["path"] == str(tmp_path / "a.txt")
    assert patches[-1]["_meta"]["rewindow"]["execution"]["value"] == "42"
    assert patches[-1]["_meta"]["rewindow"]["execution"]["names"]["added"] == ["a"]


async def test_a_failing_statement_is_a_failed_call_with_its_traceback_and_the_turn_goes_on(
    agent: Client, tmp_path: Path
) -> None:
    session = await agent.open(tmp_path)
    assert await agent.prompt(session, "def f():\n    return 1 / 0\nf()") == "end_turn"
    last = agent.updates("tool_call_update")[-1]
    assert last["status"] == "failed"
    text = last["content"][0]["content"]["text"]
    assert re.search(r'File "<statement 1>", line 2, in f\n    return 1 / 0', text)
    assert text.rstrip("`\n").endswith("ZeroDivisionError: division by zero")


async def test_what_a_statement_prints_is_shown_while_it_runs(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    prompt = await agent.begin_prompt(session, f"print('before', flush=True)\n{gate.source}\nprint('after')")
    await agent.until(
        lambda message: "before" in json.dumps(message.get("params", {}).get("update", {}).get("content", ""))
    )
    assert not [update for update in agent.updates("tool_call_update") if update.get("status") == "completed"]
    await gate.pass_one()
    assert (await agent.response(prompt))["result"]["stopReason"] == "end_turn"


async def test_a_resource_in_a_prompt_opens_a_view_and_its_change_is_reported_once(
    agent: Client, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("first\n")
    session = await agent.open(tmp_path)
    link = {"type": "resource_link", "uri": notes.as_uri(), "name": "notes.md"}
    embedded = {"type": "resource", "resource": {"uri": "mem://scratch", "text": "kept in the prompt\n"}}
    assert await agent.prompt(session, "notes_md.Run()", link, embedded) == "end_turn"
    shown = json.dumps(agent.updates("tool_call_update"))
    assert "first" in shown
    assert "kept in the prompt" in shown
    notes.write_text("second\n")
    await agent.prompt(session, "1")
    await agent.prompt(session, "2")
    changes = [update for update in agent.updates("tool_call") if update["title"] == "modified notes.md"]
    assert len(changes) == 1
    assert changes[0]["locations"] == [{"path": str(notes)}]


async def test_a_failing_model_is_an_error_with_its_own_words_and_the_session_goes_on(
    store: MemoryStore, tmp_path: Path
) -> None:
    model = scripted(tmp_path, {"text": "half", "error": "the provider is overloaded"}, {"text": "whole"})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await agent.open(tmp_path)
        prompt = await agent.begin_prompt(session, "go")
        assert (await agent.response(prompt))["error"]["message"] == "the provider is overloaded"
        assert await agent.prompt(session, "again") == "end_turn"
        assert agent.text() == "halfwhole"


@pytest.mark.parametrize(
    ("reply", "reason"), [({"cause": "length", "text": "cut"}, "max_tokens"), ({"cause": "refusal"}, "refusal")]
)
async def test_the_models_own_end_is_the_stop_reason(
    store: MemoryStore, tmp_path: Path, reply: dict[str, Any], reason: str
) -> None:
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, reply)) as agent:
        assert await agent.prompt(await agent.open(tmp_path), "go") == reason


async def test_too_many_rounds_end_with_max_turn_requests(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, *[{"statement": "1"}] * 5)
    async with in_memory(tmp_path, store=store, model=model, max_rounds=2) as agent:
        assert await agent.prompt(await agent.open(tmp_path), "go") == "max_turn_requests"
        assert len(agent.updates("tool_call")) == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemExit(3)", "SystemExit"),
        ("input()", "EOFError"),
    ],
)
async def test_a_statement_that_would_end_or_ask_a_terminal_is_recorded_and_names_stay(
    agent: Client, tmp_path: Path, source: str, said: str
) -> None:
    session = await agent.open(tmp_path)
    await agent.prompt(session, "kept = 41")
    assert await agent.prompt(session, source) == "end_turn"
    assert said in agent.updates("tool_call_update")[-1]["content"][0]["content"]["text"]
    await agent.prompt(session, "kept + 1")
    assert agent.updates("tool_call_update")[-1]["_meta"]["rewindow"]["execution"]["value"] == "42"


async def test_a_view_of_a_missing_or_binary_file_says_so(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "blob.bin").write_bytes(bytes(range(256)) * 4)
    session = await agent.open(tmp_path)
    assert await agent.prompt(session, 'view("nothing.txt")\nview("blob.bin")') == "end_turn"
    assert "nothing.txt" in agent.text()
    assert "binary" in agent.text()
