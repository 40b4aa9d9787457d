"""What an editor sees of models: the choice, thinking, and a call that is made again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.context.models import provider
from engine.context.models.provider_stream import ProviderClient
from engine.session import model_choice
from engine.session.model_choice import ConfiguredModels
from tests.support.llm_answers import anthropic, chat
from tests.support.llm_server import Answer, LlmServer, chunk, llm_server_in_environment, sse
from tests.support.memory import Client, in_memory

pytestmark = pytest.mark.anyio
MODEL = "provider:openai:gpt-x"
LOADING = "Loading the library for openai:gpt-x"
BUSY = Answer(429, (b'{"error": {"message": "slow down"}}',), {"Retry-After": "0"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server_in_environment(monkeypatch) as server:
        monkeypatch.setattr("engine.context.models.provider.FIRST_PAUSE", 0.01)
        yield server


def options(message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {option["id"]: option for option in message["configOptions"]}


async def test_the_menu_offers_what_providers_say_and_sets_the_model(tmp_path: Path, server: LlmServer) -> None:
    server.lists["/v1/models"] = Answer(pieces=(json.dumps({"data": [{"id": "gpt-5-listed"}]}).encode(),))
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        await agent.initialize()
        opened = await agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        menus = options(opened)
        assert (menus["model"]["category"], menus["model"]["currentValue"]) == ("model", MODEL)
        assert (menus["thought_level"]["category"], menus["thought_level"]["currentValue"]) == (
            "thought_level",
            "default",
        )
        assert [*menus][:3] == ["mode", "model", "thought_level"]
        await agent.until(
            lambda message: (
                "gpt-5-listed" in str(message)
                and message["params"]["update"]["sessionUpdate"] == "config_option_update"
            )
        )
        session = opened["sessionId"]
        for option, value in (("model", "provider:openai:gpt-5-listed"), ("thought_level", "low")):
            params = {"sessionId": session, "configId": option, "value": value}
            answer = await agent.call("session/set_config_option", params)
            assert options(answer)[option]["currentValue"] == value
        server.answers.append(chat("hello"))
        assert await agent.prompt(session, "hi") == "end_turn"
        body = server.asked[-1].body
        assert (body["model"], body["reasoning_effort"]) == ("gpt-5-listed", "low")
        for option, value in (("model", "nope"), ("thought_level", "much"), ("model", True)):
            params = {"sessionId": session, "configId": option, "value": value}
            assert (await agent.error("session/set_config_option", params))["code"] == -32602
        params = {"sessionId": session, "configId": "model", "value": "direct"}
        assert "thought_level" not in options(await agent.call("session/set_config_option", params))


async def answered(agent: Client, tmp_path: Path, **capabilities: Any) -> str:
    await agent.initialize(**capabilities)
    return await agent.prompt(await agent.new_session(tmp_path), "hi")


async def test_one_call_shows_all_attempts_until_the_model_answers(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [BUSY, BUSY, chat("hello")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        assert await answered(agent, tmp_path) == "end_turn"
        calls = [update for update in agent.updates() if "toolCallId" in update]
    assert len({call["toolCallId"] for call in calls}) == 1
    assert [(call["title"], call.get("status")) for call in calls] == [
        ("Ask the model again: attempt 2 of 5", "in_progress"),
        ("Ask the model again: attempt 3 of 5", None),
        ("The model answered at attempt 3", "completed"),
    ]
    assert "slow down" in calls[0]["content"][0]["content"]["text"]


async def test_a_call_that_fails_at_last_says_so(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [BUSY] * 5
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        error = await agent.error("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
        assert f"{server.url}/v1: slow down (HTTP 429) (tried 5 times)" in error["message"]
        last = [update for update in agent.updates() if "toolCallId" in update][-1]
        assert (last["title"], last["status"]) == ("The model did not answer in 5 attempts", "failed")


def retries(agent: Client) -> list[Any]:
    return [update for update in agent.updates() if str(update.get("toolCallId")).startswith("retry_")]


async def test_a_call_shows_which_model_answers_instead(tmp_path: Path, server: LlmServer) -> None:
    refused = Answer(401, (b'{"error": {"message": "no"}}',))
    server.answers += [refused, anthropic("instead"), refused, refused]
    settings = {"fallback_models": ("provider:anthropic:claude",)}
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL, **settings) as agent:
        assert await answered(agent, tmp_path) == "end_turn"
        begun, ended = retries(agent)
        assert begun["title"] == "Ask anthropic:claude instead"
        assert "does not accept the credentials" in str(begun["content"])
        assert (ended["title"], ended["status"]) == ("anthropic:claude answered", "completed")
        session = await agent.new_session(tmp_path)
        await agent.error("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
        last = retries(agent)[-1]
        assert (last["title"], last["status"]) == ("anthropic:claude did not answer either", "failed")


async def test_one_call_shows_every_attempt_of_every_model(tmp_path: Path, server: LlmServer) -> None:
    half, refused = (
        Answer(pieces=(sse(chunk(content="half")),), cut=True),
        Answer(401, (b'{"error": {"message": "no"}}',)),
    )
    server.answers += [chat("hello"), half, refused, BUSY, anthropic("instead")]
    settings = {"fallback_models": ("provider:anthropic:claude",)}
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL, **settings) as agent:
        assert await answered(agent, tmp_path) == "end_turn"
        assert await agent.prompt(await agent.new_session(tmp_path), "hi") == "end_turn"
        calls = retries(agent)
    assert len({call["toolCallId"] for call in calls}) == 1
    assert [(call["title"], call.get("status")) for call in calls] == [
        ("Ask the model again: attempt 2 of 2", "in_progress"),
        ("Ask anthropic:claude instead", None),
        ("Ask the model again: attempt 2 of 5", None),
        ("anthropic:claude answered", "completed"),
    ]
    texts = [call["content"][0]["content"]["text"] for call in calls[:-1]]
    assert ["discarded" in text for text in texts] == [True, False, False]


async def test_a_client_with_notices_gets_notices(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [BUSY, chat("hello")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        assert await answered(agent, tmp_path, session={"notices": {}}) == "end_turn"
        notices = [(notice["severity"], notice["title"]) for notice in agent.updates("notice")]
        assert notices.count(("warning", "Ask the model again: attempt 2 of 5")) == 1
        assert not [update for update in agent.updates() if "toolCallId" in update]


@pytest.fixture(autouse=True)
def untold_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told of the library that the first call of the process loads, however busy the machine is."""
    monkeypatch.setattr(provider, "DELAY_SECONDS", 60.0)


@pytest.fixture
def slow_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call waits for its library, longer than nobody is told about."""
    connect = provider._connect  # pyright: ignore[reportPrivateUsage]

    def slowly(*arguments: Any) -> ProviderClient:
        with provider.loading():
            time.sleep(0.3)
        return connect(*arguments)

    monkeypatch.setattr(provider, "DELAY_SECONDS", 0.1)
    monkeypatch.setattr(provider, "_connect", slowly)


@pytest.mark.usefixtures("slow_library")
async def test_what_delays_a_first_call_is_one_card(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [chat("hello"), chat("again")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        assert await answered(agent, tmp_path) == "end_turn"
        begun, ended = (update for update in agent.updates() if "toolCallId" in update)
        assert (begun["title"], begun["status"]) == (LOADING, "in_progress")
        assert (ended["toolCallId"], ended["status"]) == (begun["toolCallId"], "completed")
        kinds = [update["sessionUpdate"] for update in agent.updates()]
        assert kinds.index("tool_call") < kinds.index("tool_call_update") < kinds.index("agent_message_chunk")


async def test_a_slow_keyring_is_told(tmp_path: Path, server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asks(_: ConfiguredModels, __: str) -> None:
        await anyio.sleep(0.1)

    monkeypatch.setattr(model_choice, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(ConfiguredModels, "ready", asks)
    server.answers += [chat("hello")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        assert await answered(agent, tmp_path) == "end_turn"
        titles = [update["title"] for update in agent.updates("tool_call")]
        assert titles[0] == "Reading the keys in the system's keyring"


@pytest.mark.usefixtures("slow_library")
async def test_what_delays_a_first_call_is_a_notice(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [chat("hello")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        assert await answered(agent, tmp_path, session={"notices": {}}) == "end_turn"
        (notice,) = agent.updates("notice")
        assert (notice["severity"], notice["title"]) == ("info", LOADING)
        assert not [update for update in agent.updates() if "toolCallId" in update]


async def test_a_reply_that_breaks_off_is_withdrawn(tmp_path: Path, server: LlmServer) -> None:
    half = Answer(pieces=(sse(chunk(role="assistant", content="half of ")),), cut=True)
    server.answers += [half, chat("whole")]
    async with in_memory(tmp_path, environ=server.environment(), model=MODEL) as agent:
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "hi") == "end_turn"
        pieces = agent.updates("agent_message_chunk")
        assert pieces[0]["content"]["text"] == "half of "
        assert "".join(piece["content"]["text"] for piece in pieces[1:]) == "whole"
        assert pieces[0]["messageId"] != pieces[1]["messageId"]
        card = next(update for update in agent.updates() if "toolCallId" in update)
        assert card["content"][0]["content"]["text"].endswith("The partial reply was discarded.")
        seen = len(agent.updates())
        await agent.load(session, tmp_path)
        again = [update for update in agent.updates()[seen:] if update["sessionUpdate"] == "agent_message_chunk"]
        assert [update["content"]["text"] for update in again] == ["whole"]
        server.answers.append(chat("next"))
        assert await agent.prompt(session, "go on") == "end_turn"
        assert "half" not in json.dumps(server.asked[-1].body["messages"])
