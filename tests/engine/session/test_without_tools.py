"""A session whose model cannot call tools: what goes over the wire, in pieces, also of calls that came before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.context.model import TextDelta
from engine.context.models.provider import ProviderModel
from engine.context.models.providers import route_to
from engine.context.tail.results import CLOSING, OPENING
from engine.context.view import View
from engine.core.clock import SystemClock
from engine.core.tokens import count
from engine.log.events.conversation import Condensation, ToolCall, ToolResult
from engine.log.store.memory import MemoryStore
from tests.support.api_rules import violations
from tests.support.in_process import InProcessEnvironment
from tests.support.llm_answers import ANSWERS
from tests.support.llm_server import LlmServer, llm_server_in_environment
from tests.support.models import AnsweringModel, says
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio

SPECS = {"chat": "openai-chat:gpt-4o", "anthropic": "anthropic:claude-opus-4-8"}
WITHOUT = {"models_without_tools": ("*",)}
BLOCK = f"{OPENING}\nx = 6 * 7\nx\n{CLOSING}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server_in_environment(monkeypatch) as served:
        yield served


def model(api: str) -> ProviderModel:
    return ProviderModel(route_to(SPECS[api], os.environ))


def spoken(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (each["role"], each["content"] if isinstance(each["content"], str) else _joined(each["content"]))
        for each in body["messages"]
        if each["role"] != "system"
    ]


def _joined(content: list[dict[str, Any]]) -> str:
    return "\n".join(part.get("text", part["type"]) for part in content)


@pytest.mark.slow
@pytest.mark.parametrize("api", SPECS)
async def test_earlier_calls_become_text_and_calls_again(server: LlmServer, tmp_path: Path, api: str) -> None:
    store = MemoryStore(SystemClock())
    native = ANSWERS[api]("Calling.", '{"source": "y = 1\\ny"}')
    server.answers += [native, *(ANSWERS[api](text) for text in ("One.", BLOCK, "Two.", "Three."))]
    session_id = None
    for settings in ({}, WITHOUT, {}):
        async with sessions_of(
            tmp_path, store, model=model(api), environments=InProcessEnvironment, settings=settings
        ) as sessions:
            if session_id is None:
                session = await sessions.create(str(tmp_path))
                session_id = session.session_id
                session.set_mode("auto")
            else:
                session = await sessions.load(session.session_id)
            assert (await session.accept("go").end()).cause == "end_turn"
            view = View.from_events(session.events)
            assert list(view.ready()) == list(view.events)
            calls = events_of(session, ToolCall)
    bodies = [asked.body for asked in server.asked]
    assert [violations(asked.path, asked.body) for asked in server.asked] == [[]] * 5
    assert [bool(body.get("tools")) for body in bodies] == [True, True, False, False, True]
    assert [call.arguments["source"] for call in calls] == ["y = 1\ny", "x = 6 * 7\nx\n"]
    written = spoken(bodies[3])
    assert written[1][1] == f"Calling.\n\n{OPENING}\ny = 1\ny\n{CLOSING}"
    assert written[2][1].startswith("[Result of the statement]\n```\n1\n```")
    assert "[Result" not in str(bodies[4])
    assert OPENING not in str(bodies[4]["messages"]).replace("\\", "")
    called = str(bodies[4]["messages"])
    assert "y = 1" in called
    assert "x = 6 * 7" in called


async def test_what_is_counted_is_what_is_sent(tmp_path: Path) -> None:
    replies = [f"Let me look.\n{BLOCK}", f"{OPENING}\n1 / 0\n{CLOSING}", "Done."]
    answering = AnsweringModel(lambda _: [TextDelta(replies.pop(0))])
    async with session_in(tmp_path, model=answering, environments=InProcessEnvironment, settings=WITHOUT) as session:
        session.set_mode("auto")
        await session.accept("go").end()
        projection = await session.projection()
    assert not projection.prompt.calls_tools
    events = [event for event in projection.prompt.messages if isinstance(event, ToolCall | ToolResult)]
    assert len(events) == 4
    texts = ["go", "Let me look.\n", BLOCK, "[Result of the statement]\n```\n42\n```"]
    texts += [f"{OPENING}\n1 / 0\n{CLOSING}", f"[Result of the statement]\n```\n{events[3].text}\n```", "Done."]
    assert projection.message_tokens == sum(count(text) + 4 for text in texts)


async def test_condensation_runs_nothing_and_leaves_a_valid_view(tmp_path: Path) -> None:
    said = [f"{OPENING}\nprint('word ' * 600)\n{CLOSING}"] * 8
    answering = AnsweringModel(
        lambda _: [TextDelta(said.pop() if said else "Done.")], says(f"We counted words. {BLOCK}")
    )
    async with session_in(
        tmp_path, model=answering, environments=InProcessEnvironment, settings={**WITHOUT, "context_budget": 4000}
    ) as session:
        session.set_mode("auto")
        assert (await session.accept("count").end()).cause == "end_turn"
        condensed = events_of(session, Condensation)
        assert condensed
        assert "We counted words." in (condensed[0].summary or "")
        assert [prompt.calls_tools for prompt in answering.summary_prompts] == [False] * len(answering.summary_prompts)
        sources = [cell.statement.source for cell in session.cells]
        assert sources == ["print('word ' * 600)\n"] * 8
        view = View.from_events(session.events)
        assert list(view.ready()) == list(view.events)
