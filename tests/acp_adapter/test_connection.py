"""One client: handshake, bad requests, order of messages, permissions, closing, stages of loading."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_adapter.methods import METHODS
from acp_adapter.server import DRAIN_SECONDS
from acp_adapter.versions import FIRST
from engine.core.clock import SystemClock
from engine.log.store.memory import MemoryStore
from tests.support.memory import Client, in_memory
from tests.support.scripts import transcript
from tests.support.transcripts import Message, asks_permission, selected

pytestmark = pytest.mark.anyio


def scripted(folder: Path, *replies: Message) -> str:
    """The model that plays `replies`."""
    script = folder / "replies.jsonl"
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    return f"scripted:{script}"


def update_in(message: Message) -> str | None:
    """The kind of update that a notification carries."""
    return message["params"]["update"]["sessionUpdate"] if message.get("method") == "session/update" else None


def where(session: str, cwd: Path) -> Message:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def text_prompt(session: str, text: str) -> Message:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


# --- the handshake ----------------------------------------------------------------------------------------------------


V1_SHAPE = {"clientCapabilities": {"fs": {"readTextFile": True}}, "clientInfo": {"name": "c", "version": "1"}}
V2_SHAPE = {"capabilities": {}, "info": {"name": "c", "version": "1"}}


@pytest.mark.parametrize("shape", [{}, V1_SHAPE, V2_SHAPE])
@pytest.mark.parametrize(("requested", "chosen"), [(0, 1), (1, 1), (2, 2), (3, 2), (65535, 2), (2**40, 2)])
async def test_version_is_negotiated(requested: int, chosen: int, shape: Any, tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        answer = await client.call("initialize", {"protocolVersion": requested, **shape})
        assert answer["protocolVersion"] == chosen
        assert ("agentCapabilities" in answer, "capabilities" in answer) == (chosen == 1, chosen == 2)
        assert (await client.call("session/list", {}))["sessions"] == []
        other = "session/load" if chosen == 2 else "auth/login"
        assert (await client.error(other, {"methodId": "m", "sessionId": "s", "cwd": "/"}))["code"] == -32601


async def test_version_can_be_chosen_again_before_a_session(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        for version in (2, 1, 2):
            assert (await client.call("initialize", {"protocolVersion": version}))["protocolVersion"] == version
        session = (await client.call("session/new", {"cwd": str(tmp_path)}))["sessionId"]
        assert (await client.error("initialize", {"protocolVersion": 1}))["code"] == -32600
        await client.begin_prompt(session, "1")
        await client.settled()
        assert client.updates("state_update")


@pytest.mark.parametrize("version", ["1", None, True, -1, 1.5, [1]])
async def test_invalid_version_is_refused(version: Any, tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        error = await client.error("initialize", {"protocolVersion": version})
        assert (error["code"], "protocolVersion" in error["message"]) == (-32602, True)
        assert (await client.error("session/list", {}))["message"] == "call initialize first"


REQUESTS = sorted(name for name in FIRST.METHODS if not METHODS[name].is_notification)


@pytest.mark.parametrize("method", sorted(set(REQUESTS) - {"initialize", "authenticate"}))
async def test_before_initialize_requests_are_refused(method: str, tmp_path: Path) -> None:
    assert METHODS[method].needs_initialization
    params = {
        **where("s", tmp_path),
        "prompt": [{"type": "text", "text": ""}],
        "modeId": "ask",
        "configId": "mode",
        "value": "ask",
        "title": "t",
    }
    async with in_memory(tmp_path) as client:
        refused = await client.error(method, params)
        assert (refused["code"], refused["message"]) == (-32600, "call initialize first")
        if method not in ("logout", "auth/status"):  # they have no params
            assert (await client.error(method, {**params, "cwd": "relative", "sessionId": 7}))["code"] == -32602


async def test_authenticate_and_cancel_need_no_initialize(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        assert (await client.error("authenticate", {"methodId": "x"}))["code"] == -32602
        await client.notify("session/cancel", {"sessionId": "none"})
        await client.quiet()


async def test_initialize_may_be_repeated_without_open_sessions(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        await client.initialize()
        session = await client.open(tmp_path)
        assert (await client.error("initialize", {"protocolVersion": 1}))["code"] == -32600
        await client.call("session/close", {"sessionId": session})
        await client.initialize()


# --- bad requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [None, {}, {"cwd": "/"}, {"cwd": 7, "mcpServers": []}, {"cwd": "relative/path", "mcpServers": []}, [], "x"],
)
async def test_bad_params_are_named_and_not_echoed(tmp_path: Path, params: object) -> None:
    async with in_memory(tmp_path) as agent:
        await agent.initialize()
        error = await agent.error("session/new", params)
        assert error["code"] == -32602
        assert "\n" not in error["message"]
        assert "relative/path" not in json.dumps(error)
        assert await agent.prompt(await agent.new_session(tmp_path), "1 + 1") == "end_turn"


async def test_invalid_directory_is_named(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as agent:
        await agent.initialize()
        error = await agent.error("session/new", {"cwd": "/no/such/place", "mcpServers": []})
        assert error["code"] == -32602
        assert error["message"] == "cwd '/no/such/place' does not exist; choose one that exists"


async def test_an_unknown_session_is_resource_not_found(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as agent:
        await agent.initialize()
        error = await agent.error(
            "session/prompt", {"sessionId": "ses_none", "prompt": [{"type": "text", "text": "1"}]}
        )
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"})
        await agent.notify("session/cancel", {"sessionId": "ses_none"})
        assert (await agent.error("session/close", {"sessionId": "ses_none"}))["code"] == -32002


# --- order of messages ------------------------------------------------------------------------------------------------


async def test_no_update_precedes_the_response_to_new(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        await client.initialize()
        opened = await client.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert client.updates() == []
        values = {option["id"]: option["currentValue"] for option in opened["configOptions"]}
        assert (opened["modes"]["currentModeId"], values) == (
            "ask",
            {
                "mode": "ask",
                "model": "direct",
                "_while_running": "queue",
                "_ask_about": "by_sandbox",
                "_network": "off",
            },
        )
        session = opened["sessionId"]
        update = await client.until(lambda message: True)
        assert (update_in(update), update["params"]["sessionId"]) == ("available_commands_update", session)
        await client.quiet()


async def test_load_sends_history_before_its_response(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, {"text": "Hello."})) as first:
        session = await first.open(tmp_path)
        assert await first.prompt(session, "hi") == "end_turn"
        shown = transcript(first.updates())
        del shown["last"]["available_commands_update"]
    async with in_memory(tmp_path, store=store) as second:
        await second.initialize()
        await second.call("session/load", where(session, tmp_path))
        echo = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}}
        first_update, *others = second.updates()
        assert {key: first_update[key] for key in echo} == echo
        assert transcript(others) == shown
        assert update_in(await second.until(lambda message: True)) == "available_commands_update"
        await second.quiet()


async def test_prompt_is_answered_after_its_updates(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"text": "Looking.", "statement": "print('out')\n6 * 7"}, {"text": "It is 42."})
    async with in_memory(tmp_path, model=model) as client:
        assert await client.prompt(await client.open(tmp_path), "compute") == "end_turn"
        assert client.text() == "Looking.It is 42."
        assert client.updates("tool_call_update")[-1]["_meta"]["rewindow"]["execution"]["value"] == "42"
        assert client.updates()[-1]["_meta"]["rewindow"]["cycle"]["stop"] == "completed"
        await client.quiet()


async def test_slow_client_gets_everything_in_order(tmp_path: Path) -> None:
    pieces = "".join(f"{number:04} " for number in range(2_000))
    async with in_memory(tmp_path, model=scripted(tmp_path, {"text": pieces, "chunk": 5}), capacity=1) as client:
        session = await client.open(tmp_path)
        prompt = await client.begin_prompt(session, "go")
        await anyio.wait_all_tasks_blocked()
        assert (await client.response(prompt))["result"]["stopReason"] == "end_turn"
        assert client.text() == pieces


async def test_when_ready_is_called_once(tmp_path: Path) -> None:
    ready: list[str] = []
    async with in_memory(tmp_path, when_ready=lambda: ready.append("ready")) as client:
        await client.initialize()
        assert ready == []
        for _ in range(2):
            await client.new_session(tmp_path)
            await client.until(lambda message: update_in(message) == "available_commands_update")
            await anyio.wait_all_tasks_blocked()
        assert ready == ["ready"]


async def test_the_rest_is_loaded_if_no_session_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_adapter.connection.IDLE_SECONDS", 0.05)
    ready = anyio.Event()
    async with in_memory(tmp_path, when_ready=ready.set) as client:
        await client.initialize()
        with anyio.fail_after(10):
            await ready.wait()


# --- permissions ------------------------------------------------------------------------------------------------------


async def asked(client: Client, folder: Path) -> tuple[int, Message]:
    """A prompt whose statement waits for the user's permission, and the question."""
    client.permission = None
    prompt = await client.begin_prompt(await client.open(folder), "do it")
    return prompt, await client.until(asks_permission)


def asking(tmp_path: Path) -> str:
    return scripted(tmp_path, {"statement": "x = 1"}, {"text": "So be it."})


async def test_permission_request_follows_its_tool_call(tmp_path: Path) -> None:
    async with in_memory(tmp_path, model=asking(tmp_path)) as client:
        prompt, question = await asked(client, tmp_path)
        (call,) = client.updates("tool_call")
        assert call["toolCallId"] == question["params"]["toolCall"]["toolCallId"]
        assert question["params"]["toolCall"]["rawInput"] == {"command": "x = 1"}
        await client.answer(question, selected("allow_once"))
        assert (await client.response(prompt))["result"]["stopReason"] == "end_turn"
        assert client.updates("tool_call_update")[-1]["status"] == "completed"


async def test_cancel_withdraws_the_permission_request(tmp_path: Path) -> None:
    async with in_memory(tmp_path, model=asking(tmp_path)) as client:
        prompt, question = await asked(client, tmp_path)
        await client.notify("session/cancel", {"sessionId": question["params"]["sessionId"]})
        assert (await client.response(prompt))["result"]["stopReason"] == "cancelled"
        withdrawn = await client.seen(lambda message: message.get("method") == "$/cancel_request")
        assert withdrawn["params"] == {"requestId": question["id"]}


# --- opening and closing at once --------------------------------------------------------------------------------------


async def stored(tmp_path: Path, store: MemoryStore) -> str:
    """A session that the store holds, with one prompt."""
    async with in_memory(tmp_path, store=store) as client:
        session = await client.open(tmp_path)
        await client.prompt(session, "kept = 1")
        return session


async def test_prompt_and_close_during_a_load(
    tmp_path: Path,
) -> None:
    store = MemoryStore(SystemClock())
    session = await stored(tmp_path, store)
    async with in_memory(tmp_path, store=store) as client:
        await client.initialize()
        await client.write(client.line("session/load", where(session, tmp_path), "load"))
        await client.until(lambda message: update_in(message) == "user_message_chunk")
        prompt = client.line("session/prompt", text_prompt(session, "while True: pass"), "prompt")
        await client.write(prompt + client.line("session/close", {"sessionId": session}, "close"))
        assert (await client.seen(lambda message: message.get("id") == "load"))["result"]["modes"]
        assert (await client.seen(lambda message: message.get("id") == "prompt"))["result"]["stopReason"] == "cancelled"
        assert (await client.seen(lambda message: message.get("id") == "close"))["result"] == {}
        assert (await client.call("session/load", where(session, tmp_path)))["modes"]


async def test_deleted_session_is_closed_and_unknown(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        session = await client.open(tmp_path)
        prompt = await client.begin_prompt(session, "while True: pass")
        await client.until(lambda message: "in_progress" in json.dumps(message))
        deleted = await client.begin("session/delete", {"sessionId": session})
        assert (await client.response(prompt))["result"]["stopReason"] == "cancelled"
        assert (await client.response(deleted))["result"] == {}
        error = await client.error("session/prompt", text_prompt(session, "1"))
        assert (error["code"], error["data"]) == (-32002, {"sessionId": session})


async def test_end_of_input_cancels_and_answers_the_turn(tmp_path: Path) -> None:
    async with in_memory(tmp_path) as client:
        session = await client.open(tmp_path)
        prompt = await client.begin_prompt(session, "while True: pass")
        await client.until(lambda message: "in_progress" in json.dumps(message))
        client.stop_writing()
        answer = await client.response(prompt, DRAIN_SECONDS / 2)  # before the grace ends
        assert answer["result"]["stopReason"] == "cancelled"
        assert await client.next() is None


# --- stages -----------------------------------------------------------------------------------------------------------

LOADED = """
import sys
from contextlib import suppress
from acp_adapter import server, v1
from acp_adapter.connection import load
from acp_adapter.jsonrpc.messages import WireShapeError

def loaded():
    return {name for name in sys.modules if name.startswith("acp_adapter.")}

first = loaded()
load("answering")
answering = loaded()
load("session")
session = loaded()
load("prompt")
everything = loaded()
for name in v1.METHODS:
    with suppress(WireShapeError):
        v1.read_params(name, {"prompt": 1})
v1.client, v1.writer(str)
late = loaded() - everything - {"acp_adapter.v1.documents"}
models = {name for name in answering - {"acp_adapter.v1"} if name.startswith("acp_adapter.v1")}
print(sorted(late), sorted(models), len(first) < len(answering) < len(session) < len(everything))
"""


def test_stages_load_everything_and_the_first_little() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[] ['acp_adapter.v1.handshake'] True"


ON_A_NETWORK = ("sharing", "hosting", "listening", "jsonrpc.sockets")


def test_stdio_loads_nothing_of_the_network() -> None:
    names = [f"acp_adapter.{name}" for name in ON_A_NETWORK]
    code = f"{LOADED}\nprint([name for name in sys.modules if name.startswith({tuple(names)!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


SECOND = """
import sys
from acp_adapter import server
from acp_adapter.connection import load
from acp_adapter.versions import Versions

for stage in ("answering", "session", "prompt"):
    load(stage)
versions = Versions()
versions.read_params("initialize", {"protocolVersion": 1})
before = sorted(name for name in sys.modules if name.startswith("acp_adapter.v2"))
versions.read_params("initialize", {"protocolVersion": 3})
early = {name for name in sys.modules if name.startswith("acp_adapter.v2")}
for stage in ("session", "prompt"):
    load(stage, 2)
versions.use(2)
versions.current.client, versions.current.writer(str)
for method in versions.current.METHODS - {"initialize"}:
    try:
        versions.read_params(method, {"prompt": 1})
    except ValueError:
        pass
late = {name for name in sys.modules if name.startswith("acp_adapter.v2")}
load("answering", 2)
print(before, sorted(early), late == {name for name in sys.modules if name.startswith("acp_adapter.v2")})
"""


def test_version_2_is_loaded_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[] ['acp_adapter.v2', 'acp_adapter.v2.handshake'] True"
