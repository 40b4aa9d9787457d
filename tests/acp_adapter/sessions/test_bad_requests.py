"""What a client can do wrong: each gets a clear error, and the agent goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.memory import Client

pytestmark = pytest.mark.anyio


async def works(agent: Client, cwd: Path) -> bool:
    """Whether a new session still runs statements."""
    return await agent.prompt(await agent.new_session(cwd), "1 + 1") == "end_turn"


async def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored(agent: Client, tmp_path: Path) -> None:
    await agent.initialize()
    assert (await agent.error("session/frobnicate", {}))["code"] == -32601
    assert (await agent.error("_vendor/thing", {}))["code"] == -32601
    await agent.notify("_vendor/thing", {})
    await agent.notify("$/thing", {})
    assert await works(agent, tmp_path)


@pytest.mark.parametrize(
    "params",
    [None, {}, {"cwd": "/"}, {"cwd": 7, "mcpServers": []}, {"cwd": "relative/path", "mcpServers": []}, [], "x"],
)
async def test_bad_params_are_named_and_never_echoed(agent: Client, tmp_path: Path, params: object) -> None:
    await agent.initialize()
    error = await agent.error("session/new", params)
    assert error["code"] == -32602
    assert "\n" not in error["message"]
    assert "relative/path" not in json.dumps(error)
    assert await works(agent, tmp_path)


async def test_a_directory_that_is_none_is_named(agent: Client) -> None:
    await agent.initialize()
    error = await agent.error("session/new", {"cwd": "/no/such/place", "mcpServers": []})
    assert error["code"] == -32602
    assert error["message"] == "cwd '/no/such/place' does not exist; choose one that exists"


async def test_an_unknown_session_is_resource_not_found(agent: Client) -> None:
    await agent.initialize()
    error = await agent.error("session/prompt", {"sessionId": "ses_none", "prompt": [{"type": "text", "text": "1"}]})
    assert (error["code"], error["data"]) == (-32002, {"sessionId": "ses_none"})
    await agent.notify("session/cancel", {"sessionId": "ses_none"})
    assert (await agent.error("session/close", {"sessionId": "ses_none"}))["code"] == -32002


async def test_content_that_was_not_advertised_is_refused(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    error = await agent.error("session/prompt", {"sessionId": session, "prompt": [image]})
    assert error["code"] == -32602
    assert "image" in error["message"]


async def test_an_empty_prompt_is_refused(agent: Client, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    assert (await agent.error("session/prompt", {"sessionId": session, "prompt": []}))["code"] == -32602


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
async def test_a_malformed_line_gets_an_error_and_the_next_one_is_read(
    agent: Client, tmp_path: Path, line: bytes
) -> None:
    await agent.initialize()
    await agent.write(line + b"\n")
    answer = await agent.until(lambda message: "error" in message and message.get("id") is None)
    assert answer["error"]["code"] in (-32700, -32600)
    assert await works(agent, tmp_path)
