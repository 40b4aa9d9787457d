"""The lines of docs/models.md that set up each provider, and where each leads."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from engine.context.model import ModelSignal, Prompt, TextDelta
from engine.context.models.catalog import Catalog
from engine.context.models.provider import ProviderModel
from engine.context.models.providers import (
    PROVIDERS,
    address_of,
    configured,
    how_to_set,
    key_name,
    keyed,
    provider_of,
    setup_of,
)
from engine.core.ids import MessageId
from engine.log.events.conversation import UserMessage
from tests.support.llm_answers import CHAT, CLAUDE, GEMINI, MISTRAL, RESPONSES, WHOLE
from tests.support.llm_server import Answer, LlmServer, llm_server
from tests.support.quick import first_is_quick

pytestmark = pytest.mark.anyio

_PAGE: Final = (Path(__file__).parents[4] / "docs/models.md").read_text()
_BLOCKS: Final = re.findall(r"```sh\n(.+)\nexport REWINDOW_MODEL=provider:(.+?):(.+)\nrewindow run\n```\n", _PAGE)
_CALLS: Final = {
    "anthropic": ("https://api.anthropic.com/v1/messages", CLAUDE),
    "openai": ("https://api.openai.com/v1/responses", RESPONSES),
    "google": (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        GEMINI,
    ),
    "groq": ("https://api.groq.com/openai/v1/chat/completions", CHAT),
    "mistral": ("https://api.mistral.ai/v1/chat/completions#stream", MISTRAL),
    "openrouter": ("https://openrouter.ai/api/v1/chat/completions", CHAT),
    "ollama": ("http://127.0.0.1:11434/v1/chat/completions", CHAT),
    "llama-cpp": ("http://127.0.0.1:8080/v1/chat/completions", CHAT),
    "vllm": ("http://127.0.0.1:8000/v1/chat/completions", CHAT),
    "lm-studio": ("http://127.0.0.1:1234/v1/chat/completions", CHAT),
}
"""What is called for a reply, and whose API it is."""
_KEY: Final = "sk-of-this-test"


def test_the_page_has_three_lines_for_each_provider() -> None:
    assert [name for _, name, _ in _BLOCKS] == [*_CALLS]
    assert {*_CALLS} == {*keyed(), *(each.name for each in PROVIDERS if each.is_local)}


@pytest.mark.parametrize(("first", "name", "model"), first_is_quick(_BLOCKS))
async def test_three_lines_lead_to_a_reply(first: str, name: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = provider_of(name, {})
    for variable in (*provider.variables, provider.listing.variable if provider.listing else ""):
        monkeypatch.delenv(variable, raising=False)
    if not provider.is_local:
        line = re.fullmatch(r"rewindow auth add (\S+) +# or: export (\w+)=.+", first)
        assert line
        assert line.groups() == (key_name(name), provider.variables[0])
        monkeypatch.setenv(provider.variables[0], _KEY)
    address, api = _CALLS[name]
    with llm_server(Answer(pieces=(WHOLE[api],))) as server:
        called = _answering_for_all(server, monkeypatch)
        signals = await _replied(f"{name}:{model}")
    assert called == [address]
    assert TextDelta("hi") in signals
    [asked] = server.asked
    assert asked.body.get("model", model) == model
    assert (_KEY in json.dumps(asked.headers)) != provider.is_local
    assert "python" in json.dumps(asked.body["tools"])


def _answering_for_all(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a server answer whatever host is called; return the addresses that are."""
    import httpx2  # here and below, because whoever collects tests need not wait for it

    from engine.context.models import provider_stream

    called: list[str] = []
    watched = provider_stream._watched  # pyright: ignore[reportPrivateUsage]

    async def lead(request: httpx2.Request) -> None:
        called.append(str(request.url))
        request.url = httpx2.URL(server.url).copy_with(raw_path=request.url.raw_path)

    def leading(*how: Any) -> httpx2.AsyncClient:
        client = watched(*how)
        client.event_hooks = {**client.event_hooks, "request": [*client.event_hooks["request"], lead]}
        return client

    monkeypatch.setattr(provider_stream, "_watched", leading)
    return called


async def _replied(spec: str) -> list[ModelSignal]:
    model = ProviderModel.from_spec(spec, os.environ)
    messages = (UserMessage(message_id=MessageId("m"), text="Hello."),)
    with anyio.fail_after(20):
        try:
            return [signal async for signal in model.reply(Prompt(instructions="", messages=messages, tail=""))]
        finally:
            await model.aclose()


@pytest.mark.parametrize("name", [each.name for each in PROVIDERS if each.is_local])
async def test_a_local_server_is_asked_for_its_models_if_the_settings_name_one(name: str, tmp_path: Path) -> None:
    provider = provider_of(name, {})
    assert provider.listing
    with llm_server() as server:
        models = {"data": [{"id": "a", "max_model_len": 32_000}, {"id": "b", "meta": {"n_ctx": 8_192}}]}
        server.lists["/v1/models"] = Answer(pieces=(json.dumps(models).encode(),))
        environ = {provider.listing.variable: f"{server.url}/v1"}
        catalog = Catalog([f"provider:{name}:a"], environ, tmp_path)
        assert catalog.refresh()
    assert [each.spec for each in catalog.offered] == [f"provider:{name}:a", f"provider:{name}:b"]
    assert [catalog.window(each.spec) for each in catalog.offered] == [32_000, 8_192]
    assert not configured({}, ["provider:openai:m"])
    assert [*configured({}, [f"provider:{name}:a"])] == [name]
    setup = setup_of(f"provider:{name}:a", {})
    assert setup
    assert setup.is_done
    assert _CALLS[name][0].startswith(address_of(provider, {}))
    assert address_of(provider, {}) in setup.sentence
    assert how_to_set(provider) == f"set {provider.variables[0]}"
