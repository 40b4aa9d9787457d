"""A session whose model cannot call tools: what goes over the wire, in pieces, also of calls that came before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from engine.context.model import TextDelta
from engine.context.models.provider import ProviderModel
from engine.context.models.providers import route_to
from engine.context.tail.results import CLOSING, OPENING, REST_LEFT_OUT
from engine.context.view import View
from engine.core.clock import SystemClock
from engine.core.tokens import count
from engine.log.events.conversation import AgentText, Condensation, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished
from engine.log.store.memory import MemoryStore
from tests.support.api_rules import violations
from tests.support.in_process import InProcessEnvironment
from tests.support.llm_answers import ANSWERS, chat
from tests.support.llm_server import Answer, LlmServer, chunk, llm_server, sse
from tests.support.models import AnsweringModel, says
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

SECONDS = 10.0
SPECS = {"chat": "openai-chat:gpt-4o", "anthropic": "anthropic:claude-opus-4-8"}
WITHOUT = {"models_without_tools": ("*",)}
BLOCK = f"{OPENING}\nx = 6 * 7\nx\n{CLOSING}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server() as served:
        for name, value in served.environment().items():
            monkeypatch.setenv(name, value)
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
async def test_a_turn_over_the_wire_with_no_tool_in_it(server: LlmServer, tmp_path: Path, api: str) -> None:
    server.answers += [ANSWERS[api](text) for text in (f"Let me look.\n{BLOCK}\nx is 41.", "It is 42.")]
    async with sessions_of(tmp_path, model=model(api), environments=InProcessEnvironment, settings=WITHOUT) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        assert (await session.accept("what is x?").end()).cause == "end_turn"
        assert [event.text for event in session.events if isinstance(event, AgentText)] == [
            "Let me look.\n",
            "It is 42.",
        ]
        (finished,) = [event for event in session.events if isinstance(event, ExecutionFinished)]
        assert finished.value == "42"
        first, second = (asked.body for asked in server.asked)
    assert [violations(asked.path, asked.body) for asked in server.asked] == [[], []]
    for body in (first, second):
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & {*body}
    system = first["messages"][0]["content"] if api == "chat" else str(first["system"])
    assert OPENING.replace('"', "") in system.replace('"', "").replace("\\", "")
    assert "Call the tool" not in system
    assert [role for role, _ in spoken(second)] == ["user", "assistant", "user"]
    assert spoken(second)[1][1] == f"Let me look.\n\n\n{BLOCK}"
    assert spoken(second)[2][1].startswith(f"[Result of the statement]\n```\n42\n```\n[{REST_LEFT_OUT}]")
    # What was sent is the beginning of what is sent next, but for the tail.
    assert spoken(second)[0][1].split("\n")[0] == spoken(first)[0][1].split("\n")[0] == "what is x?"


@pytest.mark.slow
@pytest.mark.parametrize("api", SPECS)
async def test_calls_of_before_are_text_afterwards_and_calls_again_when_it_is_set_back(
    server: LlmServer, tmp_path: Path, api: str
) -> None:
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
                session = await sessions.load(session_id)
            assert (await session.accept("go").end()).cause == "end_turn"
            view = View.from_events(session.events)
            assert list(view.ready()) == list(view.events)
            calls = [event for event in session.events if isinstance(event, ToolCall)]
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
    async with sessions_of(tmp_path, model=answering, environments=InProcessEnvironment, settings=WITHOUT) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        await session.accept("go").end()
        projection = await session.projection()
    assert not projection.prompt.calls_tools
    events = [event for event in projection.prompt.messages if isinstance(event, ToolCall | ToolResult)]
    assert len(events) == 4
    texts = ["go", "Let me look.\n", BLOCK, "[Result of the statement]\n```\n42\n```"]
    texts += [f"{OPENING}\n1 / 0\n{CLOSING}", f"[Result of the statement]\n```\n{events[3].text}\n```", "Done."]
    assert projection.message_tokens == sum(count(text) + 4 for text in texts)


async def test_a_condensation_in_that_form_runs_nothing_and_leaves_a_view_that_can_be_sent(tmp_path: Path) -> None:
    said = [f"{OPENING}\nprint('word ' * 600)\n{CLOSING}"] * 8
    answering = AnsweringModel(
        lambda _: [TextDelta(said.pop() if said else "Done.")], says(f"We counted words. {BLOCK}")
    )
    async with sessions_of(
        tmp_path,
        model=answering,
        environments=InProcessEnvironment,
        settings={**WITHOUT, "context_budget": 4_000},
    ) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        assert (await session.accept("count").end()).cause == "end_turn"
        condensed = [event for event in session.events if isinstance(event, Condensation)]
        assert condensed
        assert "We counted words." in (condensed[0].summary or "")
        assert [prompt.calls_tools for prompt in answering.summary_prompts] == [False] * len(answering.summary_prompts)
        sources = [cell.statement.source for cell in session.cells]
        assert sources == ["print('word ' * 600)\n"] * 8
        view = View.from_events(session.events)
        assert list(view.ready()) == list(view.events)


@pytest.mark.slow
async def test_a_result_that_must_be_shortened_stays_in_its_fence(server: LlmServer, tmp_path: Path) -> None:
    server.answers += [chat(f"{OPENING}\nprint('word ' * 4000)\n{CLOSING}"), chat("Done.")]
    async with sessions_of(
        tmp_path,
        model=model("chat"),
        environments=InProcessEnvironment,
        settings={**WITHOUT, "context_budget": 4_000},
    ) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        assert (await session.accept("count").end()).cause == "end_turn"
    result = spoken(server.asked[-1].body)[-1][1]
    assert result.count("[Result of the statement]") == 1
    assert result.count("```") == 2
    assert "left out, because the context is full" in result


@pytest.mark.slow
@pytest.mark.parametrize("text", [f"{BLOCK}\nThe result is ", f"{BLOCK} " + "and " * 20])
async def test_a_model_that_goes_on_after_its_block_is_hung_up_on(server: LlmServer, tmp_path: Path, text: str) -> None:
    server.answers += [Answer(pieces=(sse(chunk(content=text + "x" * 40)),), hang=True), chat("It is 42.")]
    async with sessions_of(
        tmp_path, model=model("chat"), environments=InProcessEnvironment, settings=WITHOUT
    ) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        assert (await session.accept("go").end()).cause == "end_turn"
        assert [cell.statement.source for cell in session.cells] == ["x = 6 * 7\nx\n"]
        assert await anyio.to_thread.run_sync(server.left.wait, SECONDS)
