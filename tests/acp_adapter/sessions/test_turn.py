"""What an editor sees of a turn: statements, code blocks, resources, stop reasons, failures, re-runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_adapter import updates
from acp_adapter.methods import METHODS
from acp_adapter.versions import FIRST
from acp_adapter.wire import WireModel
from engine.context.tail.results import CLOSING, OPENING, REST_LEFT_OUT
from engine.context.view import View
from engine.core.toolbox import TOOLS
from engine.log.store.memory import MemoryStore
from tests.support.fake_editor import OFFERS, READ, WRITE, FakeEditor
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import (
    asks_permission,
    last_value,
    scripted,
    transcript,
    update_in,
)

pytestmark = pytest.mark.anyio


async def test_every_method_and_update_occurs_and_is_valid(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    model = scripted(
        tmp_path,
        {
            "reasoning": "I shall look.",
            "text": "Looking.",
            "statement": 'n = view("notes.md")\nn.Run()\nread("notes.md")\ngrep("N")\nwrite("a", "b")\nbash("true")\n'
            'edit("notes.md", "Unsaved", "Notes")\nplan([{"content": "Look"}])\nask("Well?", ["yes"])\n'
            'try: fetch("http://127.0.0.1/")\nexcept OSError: pass',
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
        assert (await agent.call("session/set_config_option", option))["configOptions"][2]["currentValue"] == "steer"
        assert (await agent.error("authenticate", {"methodId": "none"}))["code"] == -32602
        assert await agent.prompt(session, "What is in notes.md?") == "end_turn"
        assert agent.text() == "Looking.It holds a heading."
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.notify("session/cancel", {"sessionId": session})
        assert await agent.call("session/close", {"sessionId": session}) == {}
        where = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.call("session/load", where)
        await agent.call("session/resume", where)
        assert await agent.call("session/status", {"sessionId": session}) == {"status": "open"}
        assert await agent.call("session/set_title", {"sessionId": session, "title": "Notes"}) == {"title": "Notes"}
        fork = (await agent.call("session/fork", where))["sessionId"]
        assert await agent.call("session/archive", {"sessionId": fork}) == {}
        assert await agent.call("session/unarchive", {"sessionId": fork}) == {}
        assert await agent.call("session/delete", {"sessionId": fork}) == {}
        assert [row["sessionId"] for row in (await agent.call("session/list", {}))["sessions"]] == [session]
        assert await agent.call("session/delete", {"sessionId": session}) == {}
        assert (await agent.call("session/list", {}))["sessions"] == []
        assert (await agent.call("auth/status", {}))["state"] == "not_required"
        assert await agent.call("logout", {}) == {}
        silent = {name for name, method in METHODS.items() if method.is_notification}
        assert set(agent.coverage.answered) == set(FIRST.METHODS) - silent - {"authenticate"}
        # Only a failing provider causes notices, and condensations are calls in version 1.
        assert set(agent.coverage.updates) == update_kinds() - {"notice", "compaction_update"}
        assert set(agent.coverage.calls) == {tool.kind for tool in TOOLS.values()}
        assert set(agent.coverage.contents) == {"content", "diff", "location"}
        assert set(agent.coverage.sent) == {"session/update", "session/request_permission", READ, WRITE}


def update_kinds() -> set[str]:
    """Every kind of update that the adapter can send."""
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
    methods = {"title": "set_title"}
    advertised = {f"session/{methods.get(name, name)}" for name in capabilities["sessionCapabilities"]}
    advertised -= {"session/additionalDirectories", "session/systemPrompt"}
    advertised.add("session/unarchive")
    served = ("list", "delete", "resume", "close", "fork", "archive", "unarchive", "status", "set_title")
    assert advertised == {f"session/{name}" for name in served}
    for method in advertised | {"session/load", "session/set_mode", "session/set_config_option"}:
        assert (await agent.error(method, {"sessionId": 7, "cwd": "relative"}))["code"] == -32602
    for method in capabilities["auth"]:
        await agent.call({"logout": "logout", "status": "auth/status"}[method], {})


async def test_statement_is_one_tool_call_with_source_output_and_locations(agent: Client, tmp_path: Path) -> None:
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


async def test_failing_statement_is_a_failed_call(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    assert await agent.prompt(session, "def f():\n    return 1 / 0\nf()") == "end_turn"
    last = agent.updates("tool_call_update")[-1]
    assert last["status"] == "failed"
    text = last["content"][0]["content"]["text"]
    assert re.search(r'File "<statement 1>", line 2, in f\n    return 1 / 0', text)
    assert text.rstrip("`\n").endswith("ZeroDivisionError: division by zero")


async def test_output_is_shown_while_a_statement_runs(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await agent.open(tmp_path)
    prompt = await agent.begin_prompt(session, f"print('before', flush=True)\n{gate.source}\nprint('after')")
    await agent.until(
        lambda message: "before" in json.dumps(message.get("params", {}).get("update", {}).get("content", ""))
    )
    assert not [update for update in agent.updates("tool_call_update") if update.get("status") == "completed"]
    await gate.pass_one()
    assert (await agent.response(prompt))["result"]["stopReason"] == "end_turn"


async def test_resource_opens_a_view_and_its_change_is_reported(
    agent: Client, store: MemoryStore, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("first\n")
    session = await agent.open(tmp_path)
    link = {"type": "resource_link", "uri": notes.as_uri(), "name": "notes.md"}
    embedded = {"type": "resource", "resource": {"uri": "mem://scratch", "text": "kept in the prompt\n"}}
    assert await agent.prompt(session, "notes_md.Run()", link, embedded) == "end_turn"
    opened = json.dumps([event.get("displays") for event in logged(store, session)])
    assert "first" in opened
    assert "kept in the prompt" in opened
    notes.write_text("second\n")
    await agent.prompt(session, "1")
    await agent.prompt(session, "2")
    changes = [update for update in agent.updates("tool_call") if update["title"] == "Follow notes.md: modified"]
    assert len(changes) == 1
    assert changes[0]["locations"] == [{"path": str(notes)}]


async def test_failing_model_is_an_error(store: MemoryStore, tmp_path: Path) -> None:
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
async def test_exit_and_input_are_recorded(agent: Client, tmp_path: Path, source: str, said: str) -> None:
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


async def test_code_block_is_a_call_and_preceding_text_a_message(store: MemoryStore, tmp_path: Path) -> None:
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
async def test_block_cut_by_length_does_not_run(tmp_path: Path, permission: str) -> None:
    text = f"Look.\n{OPENING}\nopen('x', 'w')"
    async with in_memory(tmp_path, model=scripted(tmp_path, {"text": text, "chunk": 4, "cause": "length"})) as agent:
        agent.permission = permission
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "go") == "max_tokens"
        assert agent.text() == text
        assert agent.updates("tool_call") == []


async def test_rejected_block_equals_a_rejected_call(tmp_path: Path) -> None:
    async with in_memory(
        tmp_path, model=scripted(tmp_path, {"text": f"{BLOCK}and more"}, {"text": "Then not."})
    ) as agent:
        agent.permission = "reject_once"
        session = await agent.open(tmp_path)
        assert await agent.prompt(session, "go") == "end_turn"
        (call,) = transcript(agent.updates())["calls"].values()
        assert call["status"] == "failed"
        assert [json.dumps(call["content"]).count(said) for said in (REST_LEFT_OUT, "rejected")] == [1, 1]


@pytest.mark.parametrize("command", ["/replay 1", "/replay 1 --live", "/edit 1\nx = 10", "/edit 1 --live\nx = 10"])
async def test_re_run_shows_progress_and_can_be_cancelled(
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
async def test_rebuild_shows_progress(agent: Client, tmp_path: Path, gate: Gate) -> None:
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
    await agent.until(lambda message: update_in(message).get("title") == "Run statement 2 again (2 of 2)")
    await gate.pass_one()
    await agent.response(after)
    (call,) = [call for call in agent.updates("tool_call")[before:] if call["title"].endswith(" (2 of 2)")]
    ends = [each for each in agent.updates("tool_call_update") if each["toolCallId"] == call["toolCallId"]]
    assert (call["status"], [each["status"] for each in ends]) == ("in_progress", ["completed"])


async def test_a_condensation_is_told_as_such_to_clients_that_show_it(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"text": "one " * 50}, {"text": "two"}, {"text": "A summary."})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        await agent.initialize(session={"compaction": {}})
        session = await agent.new_session(tmp_path)
        for text in ("first " * 50, "second", "/compact"):
            await agent.prompt(session, text)
        begun, ended = agent.updates("compaction_update")
        assert (begun["status"], begun["compactionId"]) == ("in_progress", ended["compactionId"])
        assert ended["status"] in ("completed", "failed")
        assert ("summary" in ended) == (ended["status"] == "completed")
        assert not [call for call in agent.updates("tool_call") if call["kind"] == "think"]
        await agent.call("session/close", {"sessionId": session})
        await agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert agent.updates("compaction_update")[2:] == [begun, ended]
