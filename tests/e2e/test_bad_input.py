"""What a client can do wrong over the wire: each gets a clear error, and the agent goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that many mistakes are made with, one after the other; it is past `initialize`."""
    with Agent(tmp_path_factory.mktemp("shared") / "state") as running:
        running.initialize()
        yield running


def works(agent: Agent, cwd: Path) -> bool:
    """Whether a new session still runs statements."""
    return agent.prompt(agent.new_session(cwd), "1 + 1") == "end_turn"


def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored(agent: Agent, tmp_path: Path) -> None:
    agent.initialize()
    assert agent.error("session/frobnicate", {})["code"] == -32601
    assert agent.error("_vendor/thing", {})["code"] == -32601
    agent.notify("_vendor/thing", {})
    agent.notify("$/thing", {})
    assert works(agent, tmp_path)


@pytest.mark.parametrize(
    "params",
    [None, {}, {"cwd": "/"}, {"cwd": 7, "mcpServers": []}, {"cwd": "relative/path", "mcpServers": []}, [], "x"],
)
def test_bad_params_are_named_and_never_echoed(shared: Agent, tmp_path: Path, params: object) -> None:
    error = shared.error("session/new", params)
    assert error["code"] == -32602
    assert "\n" not in error["message"]
    assert "relative/path" not in json.dumps(error)
    assert works(shared, tmp_path)


def test_a_directory_that_is_none_is_named(agent: Agent) -> None:
    agent.initialize()
    error = agent.error("session/new", {"cwd": "/no/such/place", "mcpServers": []})
    assert error["code"] == -32602
    assert "/no/such/place is not a directory" in error["message"]


def test_an_unknown_session_is_resource_not_found(agent: Agent) -> None:
    agent.initialize()
    error = agent.error("session/prompt", {"sessionId": "ses_none", "prompt": [{"type": "text", "text": "1"}]})
    assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"})
    agent.notify("session/cancel", {"sessionId": "ses_none"})
    assert agent.error("session/close", {"sessionId": "ses_none"})["code"] == -32002


def test_a_second_initialize_is_refused_once_a_session_is_open(agent: Agent, tmp_path: Path) -> None:
    agent.open(tmp_path)
    assert agent.error("initialize", {"protocolVersion": 1})["code"] == -32600
    assert works(agent, tmp_path)


def test_nothing_but_initialize_is_served_before_initialize(agent: Agent, tmp_path: Path) -> None:
    assert agent.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})["code"] == -32600
    agent.initialize()
    assert works(agent, tmp_path)


@pytest.mark.parametrize("version", [1, 2, 65535, 99999999])
def test_every_version_negotiates_to_one(agent: Agent, version: int) -> None:
    assert agent.call("initialize", {"protocolVersion": version})["protocolVersion"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b"{nonsense",
        b"[]",
        b'"x"',
        b"[1, 2]",
        b'{"jsonrpc": "2.0"}',
        b"\xff\xfe{}",
        b'{"jsonrpc":"2.0","id":{},"method":"x"}',
    ],
)
def test_a_malformed_line_gets_an_error_and_the_next_one_is_read(shared: Agent, tmp_path: Path, line: bytes) -> None:
    shared.write(line + b"\n")
    answer = shared.until(lambda message: "error" in message and message.get("id") is None)
    assert answer["error"]["code"] in (-32700, -32600)
    assert works(shared, tmp_path)


def test_a_line_of_sixty_megabytes_is_refused_without_being_kept(agent: Agent, tmp_path: Path) -> None:
    agent.initialize()
    chunk = b"x" * (1 << 20)
    agent.write(b'{"jsonrpc":"2.0","id":1,"method":"')
    for _ in range(60):
        agent.write(chunk)
    agent.write(b'"}\n')
    answer = agent.next()
    assert answer is not None
    assert answer["error"]["code"] == -32700
    assert works(agent, tmp_path)


def test_two_prompts_at_once_are_served_in_turn(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    first = agent.begin_prompt(session, "x = 1")
    second = agent.begin_prompt(session, "x += 1; x")
    assert agent.response(first)["result"]["stopReason"] == "end_turn"
    assert agent.response(second)["result"]["stopReason"] == "end_turn"
    assert agent.text().endswith("2")


def test_content_that_was_not_advertised_is_refused(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    error = agent.error("session/prompt", {"sessionId": session, "prompt": [image]})
    assert error["code"] == -32602
    assert "image" in error["message"]


def test_an_empty_prompt_is_refused(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    assert agent.error("session/prompt", {"sessionId": session, "prompt": []})["code"] == -32602


def test_stdin_closed_in_the_middle_of_a_turn_cancels_it_and_ends_the_agent(agent: Agent, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    prompt = agent.begin_prompt(session, "while True: pass")
    agent.until(lambda message: message.get("params", {}).get("update", {}).get("status") == "in_progress")
    assert agent.process.stdin
    agent.process.stdin.close()
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    assert agent.process.wait(10) == 0


def test_a_view_of_a_missing_or_binary_file_says_so(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "blob.bin").write_bytes(bytes(range(256)) * 4)
    session = agent.open(tmp_path)
    assert agent.prompt(session, 'view("nothing.txt")\nview("blob.bin")') == "end_turn"
    content = agent.updates("tool_call_update")[-1]["content"][0]["content"]["text"]
    assert "nothing.txt" in content
    assert "binary" in content
