"""What a client of version 2 sees of sessions and turns."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_adapter import v2
from acp_adapter.methods import METHODS
from acp_adapter.sign_in import SETUP
from acp_adapter.updates.calls import TERMINAL_OUTPUT
from acp_adapter.updates.shapes import ToolCallUpdate
from acp_adapter.v2 import shapes
from acp_adapter.v2.updates import PLAN
from acp_adapter.wire import WireModel
from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory
from tests.support.scripts import asks_permission, scripted
from tests.support.transcripts import selected
from tests.support.version_2 import FORMS, chosen_mode, idles, initialize, inserted, opened, rested, states, worked

pytestmark = pytest.mark.anyio

RUNNING = {"state": "running"}
ENDED = {"state": "idle", "stopReason": "end_turn"}
CANCELLED = {"state": "idle", "stopReason": "cancelled"}
SHARED = {each.model_fields["session_update"].default for each in shapes.UNCHANGED}


def own_kinds() -> set[str]:
    """The kinds of updates that have shapes of this version."""
    found = [each for each in vars(shapes).values() if isinstance(each, type) and issubclass(each, WireModel)]
    kinds = {each.model_fields["session_update"].default for each in found if "session_update" in each.model_fields}
    return kinds - SHARED


async def test_every_method_and_update_occurs_and_is_valid(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    model = scripted(
        tmp_path,
        {
            "reasoning": "I shall look.",
            "text": "Looking.",
            "statement": 'write("a", "b")\nbash("echo shown")\nedit("notes.md", "Notes", "Note")\n'
            'n = view("notes.md")\nplan([{"content": "Look"}])\nask("Well?", ["yes"])',
        },
        {"text": "It holds a heading."},
    )
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await opened(agent, tmp_path)
        assert (await agent.error("auth/login", {"methodId": "none"}))["code"] == -32602
        assert await worked(agent, session, "What is in notes.md?") == ENDED
        assert agent.text() == "Looking.It holds a heading."
        await agent.notify("session/cancel", {"sessionId": session})
        await chosen_mode(agent, session, "auto")
        where = {"sessionId": session, "cwd": str(tmp_path)}
        assert await agent.call("session/close", {"sessionId": session}) == {}
        await agent.call("session/resume", {**where, "replayFrom": {"type": "start"}})
        assert await agent.call("session/status", {"sessionId": session}) == {"status": "open"}
        assert await agent.call("session/set_title", {"sessionId": session, "title": "Notes"}) == {"title": "Notes"}
        fork = (await agent.call("session/fork", where))["sessionId"]
        assert await agent.call("session/archive", {"sessionId": fork}) == {}
        assert await agent.call("session/unarchive", {"sessionId": fork}) == {}
        assert await agent.call("session/delete", {"sessionId": fork}) == {}
        assert [row["sessionId"] for row in (await agent.call("session/list", {}))["sessions"]] == [session]
        assert await agent.call("session/delete", {"sessionId": session}) == {}
        assert (await agent.call("auth/status", {}))["state"] == "not_required"
        assert await agent.call("auth/logout", {}) == {}
        silent = {name for name in v2.METHODS if METHODS[name].is_notification}
        assert set(agent.coverage.answered) == v2.METHODS - silent - {"auth/login"}
        assert set(agent.coverage.updates) - SHARED == own_kinds()
        assert set(agent.coverage.contents) == {"content", "diff", "terminal", "location"}
        assert set(agent.coverage.sent) == {"session/update", "session/request_permission"}


async def test_what_is_advertised_is_served(agent: Client) -> None:
    answer = await initialize(agent)
    session = answer["capabilities"]["session"]
    assert set(session) == {
        "prompt",
        "mcp",
        "delete",
        "additionalDirectories",
        "fork",
        "archive",
        "status",
        "systemPrompt",
        "title",
    }
    assert (set(session["prompt"]), set(session["mcp"])) == ({"image", "embeddedContext"}, {"stdio", "http"})
    assert all(marker == {} for marker in (*session["prompt"].values(), *session["mcp"].values(), session["delete"]))
    assert (answer["info"]["name"], [method["type"] for method in answer["authMethods"]]) == ("rewindow", ["agent"])
    for method in v2.METHODS - {"initialize", "auth/logout", "auth/status", "session/list", "session/cancel"}:
        assert (await agent.error(method, {"sessionId": 7, "cwd": "relative"}))["code"] == -32602, method


@pytest.mark.parametrize(
    "offered",
    [{"capabilities": {"auth": {"terminal": {}}}}, {"clientCapabilities": {"auth": {"terminal": True}}}],
)
async def test_terminal_login_is_for_clients_that_offer_it(agent: Client, offered: Mapping[str, Any]) -> None:
    methods = (await agent.call("initialize", {"protocolVersion": 2, **offered}))["authMethods"]
    assert [(method["type"], method.get("args")) for method in methods] == [("terminal", [SETUP]), ("agent", None)]


async def test_prompt_is_answered_before_its_end(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    message = await inserted(agent, session, gate.source)
    assert (states(agent), idles(agent)) == ([RUNNING], [])
    await gate.reached()
    (echo,) = agent.updates("user_message")
    assert (echo["messageId"], echo["content"]) == (message, [{"type": "text", "text": gate.source}])
    gate.release()
    await rested(agent)
    assert states(agent) == [RUNNING, ENDED]
    assert agent.updates()[-1]["sessionUpdate"] == "state_update"


async def test_each_of_several_queued_prompts_has_its_end(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    second = await agent.begin_prompt(session, "1 / 0")
    third = await agent.begin_prompt(session, "6 * 7")
    await agent.settled()
    assert not any(message.get("id") == second for message in agent.received)
    gate.release()
    await rested(agent)
    names = [
        (await agent.seen(lambda message, name=name: message.get("id") == name))["result"]["messageId"]
        for name in (second, third)
    ]
    assert states(agent) == [RUNNING, ENDED] * 3
    order = [
        update.get("state", update.get("messageId"))
        for update in agent.updates()
        if update["sessionUpdate"] in ("state_update", "user_message")
    ]
    assert order[1:] == [order[1], "idle", "running", names[0], "idle", "running", names[1], "idle"]
    assert agent.text().endswith("42")
    agent.received.clear()
    await worked(agent, session, "2")
    assert states(agent) == [RUNNING, ENDED]


async def test_failure_of_a_prompt_is_told_though_another_one_waits(tmp_path: Path, gate: Gate) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"error": "no more"}, {"text": "Done."})
    async with in_memory(tmp_path, model=model) as agent:
        session = await opened(agent, tmp_path)
        await chosen_mode(agent, session, "auto")
        await inserted(agent, session, "first")
        await gate.reached()
        await agent.begin_prompt(session, "second")
        gate.release()
        await agent.until(lambda _: len(idles(agent)) == 2)
        first, last = idles(agent)
        assert (first["stopReason"], "no more" in first["error"]["message"]) == ("error", True)
        assert last == ENDED


async def test_cancel_answers_prompts_without_a_place(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    second = await agent.begin_prompt(session, "6 * 7")
    await agent.notify("session/cancel", {"sessionId": session})
    assert (await agent.response(second))["error"]["code"] == -32800
    await rested(agent)
    assert states(agent) == [RUNNING, CANCELLED]
    assert len(agent.updates("user_message")) == 1
    call = [update for update in agent.updates("tool_call_update") if "status" in update][-1]
    assert call["status"] == "cancelled"
    assert await worked(agent, session, "1") == ENDED


async def test_cancelled_request_withdraws_a_waiting_prompt(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    second = await agent.begin_prompt(session, "6 * 7")
    await agent.notify("$/cancel_request", {"requestId": second})
    assert (await agent.response(second))["error"]["code"] == -32800
    gate.release()
    await rested(agent)
    assert states(agent) == [RUNNING, ENDED]


async def test_command_that_only_looks_is_answered_during_a_turn(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    aside = await inserted(agent, session, "/timeline")
    await agent.settled()
    echo = agent.updates("user_message")[-1]
    assert (echo["messageId"], echo["content"][0]["text"]) == (aside, "/timeline")
    answer = agent.updates("agent_message_chunk")[-1]
    assert answer["messageId"] != aside
    assert agent.updates().index(echo) < agent.updates().index(answer)
    assert states(agent) == [RUNNING]
    gate.release()
    await rested(agent)
    assert states(agent) == [RUNNING, ENDED]


async def test_failed_turn_is_an_idle_error(tmp_path: Path) -> None:
    async with in_memory(tmp_path, environ={}, model="provider:openai:gpt-5", must_have_model=False) as agent:
        session = await opened(agent, tmp_path)
        end = await worked(agent, session, "hello")
        assert (end["stopReason"], end["error"]["code"]) == ("error", -32000)
        assert "\n" not in end["error"]["message"]
        assert len(agent.updates("user_message")) == 1


async def test_question_is_a_state(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": 'bash("touch made")'}, {"text": "Done."})
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await opened(agent, tmp_path)
        await inserted(agent, session, "go")
        question = await agent.until(asks_permission)
        assert states(agent) == [RUNNING, {"state": "requires_action"}]
        params = question["params"]
        assert set(params) == {"sessionId", "title", "subject", "options"}
        assert params["subject"]["type"] == "tool_call"
        await agent.answer(question, selected("reject_once"))
        await rested(agent)
        assert states(agent)[2:] == [RUNNING, ENDED]
        assert not (tmp_path / "made").exists()


async def test_question_about_a_command_shows_the_command(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"statement": 'bash("touch made")'}, {"text": "Done."})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await opened(agent, tmp_path)
        option = {"sessionId": session, "configId": "_ask_about", "type": "id", "value": "acts"}
        await agent.call("session/set_config_option", option)
        assert await worked(agent, session, "go") == ENDED
        (subject,) = [each["params"]["subject"] for each in agent.received if asks_permission(each)]
        assert (subject["type"], subject["command"], subject["cwd"]) == ("command", "touch made", str(tmp_path))
        assert (tmp_path / "made").exists()


@pytest.mark.parametrize("outcome", [{"outcome": "_other"}, {"outcome": "selected", "optionId": "none"}, {}])
async def test_unknown_outcome_is_a_rejection(store: MemoryStore, tmp_path: Path, outcome: Mapping[str, Any]) -> None:
    model = scripted(tmp_path, {"statement": 'bash("touch made")'}, {"text": "Done."})
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await opened(agent, tmp_path)
        await inserted(agent, session, "go")
        await agent.answer(await agent.until(asks_permission), {"outcome": outcome})
        await rested(agent)
        assert idles(agent) == [ENDED]
        assert not (tmp_path / "made").exists()


async def test_forms_are_asked_as_forms(store: MemoryStore, tmp_path: Path) -> None:
    async with in_memory(tmp_path, store=store) as agent:
        session = await opened(agent, tmp_path, **FORMS)
        await inserted(agent, session, 'got = ask("Which?", ["a", "b"])\nprint([got])')
        question = await agent.until(lambda message: message.get("method") == "elicitation/create")
        await agent.answer(question, {"action": "accept", "content": {"answer": "b"}})
        await rested(agent)
        assert idles(agent) == [ENDED]
        assert "['b']" in json.dumps(agent.updates("tool_call_update"))


async def test_close_ends_work_before_its_response(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    second = await agent.begin_prompt(session, "6 * 7")
    assert await agent.call("session/close", {"sessionId": session}) == {}
    assert states(agent) == [RUNNING, CANCELLED]
    assert (await agent.seen(lambda message: message.get("id") == second))["error"]["code"] == -32800
    await agent.quiet()
    assert await agent.call("session/close", {"sessionId": session}) == {}
    assert await agent.call("session/close", {"sessionId": "ses_none"}) == {}


async def test_unknown_session_is_named(agent: Client, tmp_path: Path) -> None:
    await initialize(agent)
    text = [{"type": "text", "text": "x"}]
    for method, params in (
        ("session/prompt", {"prompt": text}),
        ("session/resume", {"cwd": str(tmp_path)}),
        ("session/set_config_option", {"configId": "mode", "type": "id", "value": "auto"}),
    ):
        error = await agent.error(method, {"sessionId": "ses_none", **params})
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"}), method


async def test_resume_replays_on_request(agent: Client, tmp_path: Path) -> None:
    session = await opened(agent, tmp_path)
    await worked(agent, session, 'bash("echo one"); 6 * 7')
    await worked(agent, session, "/help")
    where = {"sessionId": session, "cwd": str(tmp_path)}
    assert await agent.call("session/close", {"sessionId": session}) == {}
    live, before = agent.updates(), len(agent.received)
    answer = await agent.call("session/resume", {**where, "replayFrom": None})
    (state,) = [message for message in agent.received[before:] if message.get("method") == "session/update"]
    assert state["params"]["update"] == {"sessionUpdate": "state_update", "state": "idle"}
    assert {option["configId"] for option in answer["configOptions"]} >= {"mode", "_network"}
    assert all(command["type"] == "command" for command in answer["availableCommands"])
    await agent.settled()
    before = len(agent.updates())
    await agent.call("session/resume", {**where, "replayFrom": {"type": "start"}})
    again = agent.updates()[before:]
    assert [each for each in again if each["sessionUpdate"] == "user_message"] == [
        each for each in live if each["sessionUpdate"] == "user_message"
    ]
    known: set[str] = set()
    for update in again:
        if update["sessionUpdate"] in ("agent_message", "agent_thought"):
            assert update["content"] == []
            known.add(update["messageId"])
        if update["sessionUpdate"].endswith("_chunk"):
            assert update["messageId"] in known
    (output,) = [each["output"] for each in again if "output" in each]
    assert b64decode(output["data"]) == b"one"
    assert again[-1] == {"sessionUpdate": "state_update", "state": "idle"}


async def test_resume_during_a_turn_tells_that_it_runs(agent: Client, tmp_path: Path, gate: Gate) -> None:
    session = await opened(agent, tmp_path)
    await inserted(agent, session, gate.source)
    await gate.reached()
    await agent.call("session/resume", {"sessionId": session, "cwd": str(tmp_path), "replayFrom": {"type": "start"}})
    assert states(agent) == [RUNNING, RUNNING]
    gate.release()
    await rested(agent)
    assert states(agent) == [RUNNING, RUNNING, ENDED]


@pytest.mark.parametrize("cursor", [{"type": "_mine"}, {"type": "end"}, {}, "start", 7])
async def test_other_cursors_are_refused(agent: Client, tmp_path: Path, cursor: Any) -> None:
    session = await opened(agent, tmp_path)
    params = {"sessionId": session, "cwd": str(tmp_path), "replayFrom": cursor}
    assert (await agent.error("session/resume", params))["code"] == -32602


async def test_options_have_types(agent: Client, tmp_path: Path) -> None:
    session = await opened(agent, tmp_path)
    where = {"sessionId": session, "configId": "_network"}
    changed = await agent.call("session/set_config_option", {**where, "type": "boolean", "value": True})
    (network,) = [option for option in changed["configOptions"] if option["configId"] == "_network"]
    assert (network["type"], network["currentValue"]) == ("boolean", True)
    for wrong in (
        {"value": "on"},
        {"type": "id", "value": True},
        {"type": "boolean", "value": "on"},
        {"type": "_mine", "value": "on"},
        {"type": "id", "value": "maybe"},
    ):
        assert (await agent.error("session/set_config_option", {**where, **wrong}))["code"] == -32602, wrong
    await chosen_mode(agent, session, "plan")
    await agent.settled()
    (mode, *_) = agent.updates("config_option_update")[-1]["configOptions"]
    assert (mode["configId"], mode["currentValue"]) == ("mode", "plan")
    assert agent.updates("current_mode_update") == []


async def test_plan_has_an_id(agent: Client, tmp_path: Path) -> None:
    session = await opened(agent, tmp_path)
    await worked(agent, session, 'plan([{"content": "Look", "status": "in_progress"}])')
    (update,) = agent.updates("plan_update")
    assert (update["plan"]["type"], update["plan"]["planId"]) == ("items", PLAN)
    assert update["plan"]["entries"] == [{"content": "Look", "priority": "medium", "status": "in_progress"}]


async def test_condensation_is_told_as_such(store: MemoryStore, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"text": "one " * 50}, {"text": "two"}, {"text": "A summary."}, {"text": "three"})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await opened(agent, tmp_path)
        for text in ("first " * 50, "second", "/compact"):
            await worked(agent, session, text)
        begun, ended = agent.updates("compaction_update")
        assert (begun["status"], begun["compactionId"]) == ("in_progress", ended["compactionId"])
        assert ended["status"] in ("completed", "failed")
        assert ("summary" in ended) == (ended["status"] == "completed")
        assert not [call for call in agent.updates("tool_call_update") if call.get("kind") == "think"]


def test_writer_redacts_what_it_encodes() -> None:
    meta = {TERMINAL_OUTPUT: {"terminal_id": "t", "data": "a key that is known since"}}
    (sent,) = v2.writer(lambda text: text.replace("key", "***")).live([ToolCallUpdate(tool_call_id="c", meta=meta)])
    assert b64decode(sent["data"]) == b"a *** that is known since"


async def test_output_of_a_terminal_has_no_secret(tmp_path: Path) -> None:
    secret = "sk-abcdef-123456"
    async with in_memory(tmp_path, environ={"A_TOKEN": secret}) as agent:
        session = await opened(agent, tmp_path)
        await worked(agent, session, f'bash("echo {secret}")')
        shown = b"".join(b64decode(each["data"]) for each in agent.updates("terminal_output_chunk"))
        assert shown == b"***\n"


@pytest.mark.parametrize("method", ["session/load", "session/set_mode", "authenticate", "logout", "fs/read_text_file"])
async def test_methods_of_version_1_are_unknown(agent: Client, tmp_path: Path, method: str) -> None:
    session = await opened(agent, tmp_path)
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": [], "modeId": "auto", "methodId": "x"}
    assert (await agent.error(method, params))["code"] == -32601
    await agent.notify("document/didOpen", {"uri": "file:///a", "version": 1, "text": ""})
    assert await worked(agent, session, "1") == ENDED


async def test_servers_have_types(agent: Client, tmp_path: Path) -> None:
    await initialize(agent)
    for server in ({"name": "s", "command": "/bin/true"}, {"type": "sse", "name": "s", "url": "http://127.0.0.1:1"}):
        params = {"cwd": str(tmp_path), "mcpServers": [server]}
        assert (await agent.error("session/new", params))["code"] == -32602, server
    typed = [
        {"type": "stdio", "name": "s", "command": "/bin/true"},
        {"type": "http", "name": "h", "url": "http://127.0.0.1:1"},
    ]
    await agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": typed})


async def test_batches_are_invalid(agent: Client, tmp_path: Path) -> None:
    session = await opened(agent, tmp_path)
    await agent.write(b'[{"jsonrpc": "2.0", "id": 1, "method": "session/list"}]\n')
    assert (await agent.until(lambda message: "error" in message))["error"]["code"] == -32600
    assert await worked(agent, session, "1") == ENDED
