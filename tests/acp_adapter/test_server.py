"""Secrets are removed from everything that leaves, except from identifiers and paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acp_adapter.jsonrpc.lines import encode
from acp_adapter.server import display_encoder
from engine.log.redaction import Redactor
from tests.support.memory import in_memory

SECRET = "a-secret-of-mine"


def test_display_text_is_redacted_and_identifiers_stay() -> None:
    message = {
        "jsonrpc": "2.0",
        "id": SECRET,
        "method": "session/update",
        "params": {
            "sessionId": SECRET,
            SECRET: 1,
            "update": {
                "status": SECRET,
                "title": f"read {SECRET}",
                "content": [{"type": SECRET, "text": SECRET}],
                "locations": [{"path": f"/{SECRET}"}],
                "rawInput": {"source": f"x = {SECRET!r}", "command": [SECRET]},
            },
        },
    }
    sent = json.loads(display_encoder(Redactor([SECRET]))(message))
    assert sent["id"] == sent["params"]["sessionId"] == SECRET
    assert sent["params"]["***"] == 1
    assert sent["params"]["update"] == {
        "status": SECRET,
        "title": "read ***",
        "content": [{"type": SECRET, "text": "***"}],
        "locations": [{"path": f"/{SECRET}"}],
        "rawInput": {"source": "x = '***'", "command": ["***"]},
    }


def test_without_secrets_the_encoder_is_plain() -> None:
    message = {"text": "harmless… and more"}
    for redactor in (Redactor([]), Redactor([SECRET])):
        assert display_encoder(redactor)(message) == encode(message)


def test_encoder_removes_what_its_redactor_learns() -> None:
    redactor = Redactor([])
    encoder = display_encoder(redactor)
    redactor.learn([SECRET])
    assert SECRET.encode() not in encoder({"text": SECRET})


def test_redacting_encoder_refuses_the_same_values() -> None:
    with pytest.raises(TypeError):
        display_encoder(Redactor([SECRET]))({"text": object()})


@pytest.mark.anyio
async def test_errors_are_redacted(tmp_path: Path) -> None:
    async with in_memory(tmp_path, environ={"A_TOKEN": SECRET}) as client:
        await client.initialize()
        error = await client.error("session/new", {"cwd": f"/{SECRET}", "mcpServers": []})
        assert error["message"] == "cwd '/***' does not exist; choose one that exists"


@pytest.mark.anyio
@pytest.mark.parametrize("word", ["completed", "sessionId", "sessionUpdate", "agent_message_chunk", "stopReason"])
async def test_secret_equal_to_a_protocol_word(tmp_path: Path, word: str) -> None:
    async with in_memory(tmp_path, environ={"SECRET_KEY": word}) as client:
        session = await client.open(tmp_path)
        assert await client.prompt(session, f"print({word!r}); 6 * 7") == "end_turn"
        last = client.updates("tool_call_update")[-1]
        assert last["status"] == "completed"
        assert client.text() == "42"
        assert word not in str(last["content"])
