"""What an editor sees of each provider's faults, and when: nobody waits without a word."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.llm_answers import BEGUN, CHAT, CLAUDE, GEMINI, MISTRAL, RESPONSES, WHOLE
from tests.support.llm_server import Answer, LlmServer, llm_server_in_environment
from tests.support.memory import in_memory
from tests.support.quick import diagonal_is_quick

pytestmark = pytest.mark.anyio

PATIENCE: Final[dict[str, float]] = {"first_byte_seconds": 1, "stall_seconds": 0.5}
SLACK: Final = 2.0
"""Seconds that a busy machine may take longer."""
WITHDRAWN: Final = "The partial reply was discarded."

PASSING: Final[dict[str, tuple[dict[str, Answer], float, str]]] = {
    "busy": ({"": Answer(429, (b'{"error": {"message": "slow down"}}',), {"Retry-After": "0"})}, 0, "slow down"),
    "broken": ({"": Answer(500, (b'{"error": {"message": "oh dear"}}',))}, 0, "oh dear"),
    "a proxy's page": ({"": Answer(502, (b"<html><body>Bad gateway</body></html>",))}, 0, "HTTP 502"),
    "empty": ({"": Answer()}, 0, "ended"),
    "silent": ({"": Answer(hang=True)}, 1, "did not begin its reply in time"),
    "stalled": ({spec: Answer(pieces=pieces, hang=True) for spec, pieces in BEGUN.items()}, 0.5, WITHDRAWN),
    "cut": ({spec: Answer(pieces=pieces, cut=True) for spec, pieces in BEGUN.items()}, 0, WITHDRAWN),
}
"""What a second attempt mends: the answer, for each provider where it has a form of its own, the seconds until the
editor is told, and what it is told."""

FINAL: Final[dict[str, dict[str, tuple[Answer, str]]]] = {
    "key refused": {
        CHAT: (Answer(401, (b'{"error": {"message": "Incorrect API key provided: sk-te****"}}',)), "OPENAI_API_KEY"),
        RESPONSES: (Answer(401, (b'{"error": {"code": "invalid_api_key", "message": "no"}}',)), "OPENAI_API_KEY"),
        CLAUDE: (
            Answer(401, (b'{"type": "error", "error": {"type": "authentication_error", "message": "invalid"}}',)),
            "ANTHROPIC_API_KEY",
        ),
        GEMINI: (
            Answer(400, (b'{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",'
                         b' "details": [{"reason": "API_KEY_INVALID"}]}}',)),
            "GOOGLE_API_KEY",
        ),
        MISTRAL: (Answer(401, (b'{"message": "Unauthorized", "request_id": "r"}',)), "MISTRAL_API_KEY"),
    },
    "no such model": {
        CHAT: (Answer(404, (b'{"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}',)),
               "does not exist"),
        RESPONSES: (Answer(404, (b'{"error": {"message": "The model `m` does not exist"}}',)), "does not exist"),
        CLAUDE: (
            Answer(404, (b'{"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}',)),
            "model: m",
        ),
        GEMINI: (
            Answer(404, (b'{"error": {"code": 404, "message": "models/m is not found", "status": "NOT_FOUND"}}',)),
            "models/m is not found",
        ),
        MISTRAL: (
            Answer(400, (b'{"object": "error", "message": "Invalid model: m", "type": "invalid_model"}',)),
            "Invalid model: m",
        ),
    },
}  # fmt: skip
"""What no attempt mends: the answer, and what the error says."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server_in_environment(monkeypatch) as server:
        monkeypatch.setattr("engine.context.models.provider.FIRST_PAUSE", 0.01)
        yield server


@pytest.mark.parametrize(("fault", "spec"), diagonal_is_quick(list(PASSING), list(WHOLE)))
async def test_another_attempt_is_shown_at_once(tmp_path: Path, server: LlmServer, spec: str, fault: str) -> None:
    answers, seconds, told = PASSING[fault]
    async with in_memory(tmp_path, environ=server.environment(), model=f"provider:{spec}", **PATIENCE) as agent:
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        server.answers.append(Answer(pieces=(WHOLE[spec],)))  # so that the library is loaded
        assert await agent.prompt(session, "hello") == "end_turn"
        seen = len(agent.updates())
        server.answers += [answers.get(spec) or answers[""], Answer(pieces=(WHOLE[spec],))]
        begun = time.monotonic()
        prompt = await agent.begin("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
        card = await agent.until(lambda message: "attempt 2" in json.dumps(message))
        assert seconds <= time.monotonic() - begun < seconds + SLACK
        assert told in card["params"]["update"]["content"][0]["content"]["text"]
        assert (await agent.response(prompt))["result"]["stopReason"] == "end_turn"
        pieces = [each for each in agent.updates()[seen:] if each["sessionUpdate"] == "agent_message_chunk"]
        texts = [each["content"]["text"] for each in pieces]
        assert texts == (["half", "hi"] if told == WITHDRAWN else ["hi"])
        assert len({each["messageId"] for each in pieces}) == len(pieces)


@pytest.mark.parametrize(("fault", "spec"), diagonal_is_quick(list(FINAL), list(WHOLE)))
async def test_what_no_attempt_mends_is_an_error_at_once(
    tmp_path: Path, server: LlmServer, spec: str, fault: str
) -> None:
    answer, told = FINAL[fault][spec]
    server.answers.append(answer)
    async with in_memory(tmp_path, environ=server.environment(), model=f"provider:{spec}") as agent:
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        error = await agent.error("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
        assert told in error["message"]
        assert server.url in error["message"]
        assert "sk-te" not in json.dumps(agent.received)
    assert len(server.asked) == 1
